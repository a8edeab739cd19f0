//! The program, started by a test and ended by its id.

use std::path::Path;
use std::process::Command;

use servers_common::testing;
use tempfile::TempDir;

use super::Client;

/// A running `evenkeel-cameras run`.
pub(crate) struct Program {
    program: testing::Program,
    directory: TempDir,
    /// More of `[process]`.
    process: &'static str,
    /// Where it listens for RTSP.
    pub(crate) rtsp: String,
    /// The same over TLS, if it does.
    pub(crate) rtsps: String,
    /// Where it listens for browsers, if it does.
    pub(crate) watch: String,
}

impl Program {
    /// Starts it by this configuration, with a listener for RTSP, and waits until it is ready.
    pub(crate) fn start(config: &str) -> Self {
        Self::start_with("", config)
    }

    /// The same with more of `[rtsp]`.
    pub(crate) fn start_with(rtsp: &str, config: &str) -> Self {
        Self::start_of("", rtsp, config)
    }

    /// The same, which looks for changes of its files by itself.
    pub(crate) fn start_looking(rtsp: &str, config: &str) -> Self {
        Self::start_of("watch = \"5ms\"", rtsp, config)
    }

    /// The same with more of `[process]`.
    pub(crate) fn start_of(process: &'static str, rtsp: &str, config: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), process, rtsp, config);
        let mut program = Self {
            program: begin(directory.path()),
            directory,
            process,
            rtsp: String::new(),
            rtsps: String::new(),
            watch: String::new(),
        };
        program.until_ready();
        program
    }

    /// Starts it by this configuration, which it refuses: what it says.
    pub(crate) fn refused(config: &str) -> String {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), "", "", config);
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel-cameras"));
        command
            .arg("run")
            .arg(directory.path().join("cameras.toml"));
        let (has_served, _, said) = testing::Program::run(&mut command);
        assert!(!has_served, "{said}");
        said
    }

    fn until_ready(&mut self) {
        loop {
            let line = self.program.line();
            if line == "ready" {
                return;
            }
            if let Some(address) = line.strip_prefix("listening on rtsp ") {
                address.clone_into(&mut self.rtsp);
            }
            if let Some(address) = line.strip_prefix("listening on rtsps ") {
                address.clone_into(&mut self.rtsps);
            }
            let watch = line.strip_prefix("watch at http");
            if let Some((_, address)) = watch.and_then(|line| line.split_once("://")) {
                address.trim_end_matches('/').clone_into(&mut self.watch);
            }
        }
    }

    /// Writes another configuration into its file.
    pub(crate) fn rewrite(&self, config: &str) {
        write(self.directory.path(), self.process, "", config);
    }

    /// Ends it, and starts it again.
    pub(crate) fn restart(&mut self) {
        self.terminate();
        self.start_again();
    }

    /// Starts it again after its end.
    pub(crate) fn start_again(&mut self) {
        self.program = begin(self.directory.path());
        self.until_ready();
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) {
        self.program.signal(name);
    }

    /// Waits until it has said this on standard error.
    pub(crate) fn until_said(&self, what: &str) {
        super::until(&format!("it says {what:?}"), || {
            self.program.said().contains(what)
        });
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn terminate(&mut self) {
        self.program.signal("TERM");
        self.program.ended();
    }

    /// The address of a camera, for viewers.
    pub(crate) fn url(&self, camera: &str) -> String {
        format!("rtsp://{}/{camera}", self.rtsp)
    }

    /// A connection of a client.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(&self.rtsp)
    }

    /// A viewer that plays, as soon as the camera can be watched.
    pub(crate) fn watch(&self, camera: &str) -> Client {
        let url = self.url(camera);
        let mut watching = None;
        super::until(&format!("{camera} can be watched"), || {
            let mut client = self.connect();
            watching = client.plays(&url).then_some(client);
            watching.is_some()
        });
        watching.unwrap()
    }

    /// What it has said on standard error.
    pub(crate) fn said(&self) -> String {
        self.program.said()
    }

    /// How many descriptors it has open.
    pub(crate) fn descriptors(&self) -> usize {
        self.program.descriptors()
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.program.id()
    }

    /// What it occupies in memory, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.program.memory()
    }
}

/// All of it or nothing, as it may be looked at.
fn write(directory: &Path, process: &str, rtsp: &str, config: &str) {
    // What a test says of it itself goes before.
    let ingest = match config.contains("[ingest]") {
        true => "",
        false => "[ingest]\nretry_first = \"20ms\"\nretry_max = \"100ms\"\nsilence = \"5s\"",
    };
    let text = format!(
        "[process]\nworkers = 2\ncameras_file = \"added.toml\"\n{process}\n{ingest}\n\
         [rtsp]\nlisten = \"127.0.0.1:0\"\n{rtsp}\n{config}"
    );
    let (file, beside) = (directory.join("cameras.toml"), directory.join("beside"));
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(beside, file).unwrap();
}

fn begin(directory: &Path) -> testing::Program {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel-cameras"));
    testing::Program::start(command.arg("run").arg(directory.join("cameras.toml")))
}
