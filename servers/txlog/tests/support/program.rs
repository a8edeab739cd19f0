//! Programs that a test starts, and ends by their ids.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, ExitStatus};

use servers_common::testing::Program;
pub(crate) use servers_common::testing::wait;

/// A running `txlog serve`.
pub(crate) struct Server {
    program: Program,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts a server for this directory on a free port, and waits until it listens.
    pub(crate) fn start(directory: &Path, options: &[&str]) -> Self {
        let directory = directory.to_str().unwrap();
        let mut all = vec!["--dir", directory];
        all.extend(options);
        Self::start_with(&all)
    }

    /// `TXLOG_PROGRAM` names another build of it.
    pub(crate) fn start_with(options: &[&str]) -> Self {
        let program = std::env::var_os("TXLOG_PROGRAM");
        let program = program.unwrap_or_else(|| env!("CARGO_BIN_EXE_txlog").into());
        Self::begin(Command::new(program), options)
    }

    /// Starts a server whose files cannot grow: its first append fails for good.
    pub(crate) fn start_without_room(directory: &Path, options: &[&str]) -> Self {
        let mut shell = Command::new("sh");
        let limit = "trap '' XFSZ; ulimit -f 64; exec \"$@\"";
        shell.args(["-c", limit, "sh", env!("CARGO_BIN_EXE_txlog")]);
        let directory = directory.to_str().unwrap();
        let mut all = vec!["--dir", directory];
        all.extend(options);
        Self::begin(shell, &all)
    }

    /// Starts a server for this directory where one was before that has ended.
    pub(crate) fn start_again(directory: &Path, address: SocketAddr, options: &[&str]) -> Self {
        let (directory, address) = (directory.to_str().unwrap(), address.to_string());
        let mut all = vec!["--dir", directory];
        all.extend(options);
        let program = Command::new(env!("CARGO_BIN_EXE_txlog"));
        Self::begin_at(program, &address, &all)
    }

    /// Starts a server that may have so many files and connections open, by these arguments of
    /// `ulimit`.
    pub(crate) fn start_with_files(files: &str, directory: &Path, options: &[&str]) -> Self {
        let mut shell = Command::new("sh");
        let limit = format!("ulimit {files}; exec \"$@\"");
        shell.args(["-c", &limit, "sh", env!("CARGO_BIN_EXE_txlog")]);
        let directory = directory.to_str().unwrap();
        let mut all = vec!["--dir", directory];
        all.extend(options);
        Self::begin(shell, &all)
    }

    fn begin(command: Command, options: &[&str]) -> Self {
        Self::begin_at(command, "127.0.0.1:0", options)
    }

    fn begin_at(mut command: Command, listen: &str, options: &[&str]) -> Self {
        command.args(["serve", "--listen", listen]).args(options);
        let mut program = Program::start(&mut command);
        let line = program.line();
        let address = line.strip_prefix("listening on ").unwrap();
        let address = address.parse().unwrap();
        Self { program, address }
    }

    /// Its process's id.
    pub(crate) fn id(&self) -> u32 {
        self.program.id()
    }

    pub(crate) fn kill(&mut self) {
        self.program.kill();
    }

    pub(crate) fn signal(&self, name: &str) {
        self.program.signal(name);
    }

    /// The names of its threads.
    #[cfg(target_os = "linux")]
    pub(crate) fn threads(&self) -> Vec<String> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.program.id())).unwrap();
        let name = |thread: std::io::Result<std::fs::DirEntry>| {
            let name = std::fs::read_to_string(thread.unwrap().path().join("comm"));
            name.unwrap_or_default().trim_end().to_owned()
        };
        threads.map(name).collect()
    }

    /// Waits until it ends by itself.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        self.program.ended()
    }

    /// Ends it, and returns its messages on standard error.
    pub(crate) fn end(&mut self) -> String {
        self.program.end()
    }

    /// Its messages on standard error so far.
    pub(crate) fn said(&self) -> String {
        self.program.said()
    }
}

/// Runs a command of the program: whether it succeeded, its output and its errors.
pub(crate) fn run_command(arguments: &[&str]) -> (bool, String, String) {
    Program::run(Command::new(env!("CARGO_BIN_EXE_txlog")).args(arguments))
}
