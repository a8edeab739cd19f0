//! `evenkeel top` as a process of its own, on a terminal that nobody sees.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::pty::{OpenptyResult, Winsize, openpty};

/// As large as a terminal commonly is, or larger.
const SIZE: Winsize = Winsize {
    ws_row: 50,
    ws_col: 160,
    ws_xpixel: 0,
    ws_ypixel: 0,
};

/// Builds the program, which stands beside the folder of this example.
pub(crate) fn build() -> io::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--package", "evenkeel-cli"]);
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    if !build.status()?.success() {
        return Err(io::Error::other("cargo cannot build `evenkeel top`"));
    }
    let example = std::env::current_exe()?;
    let folder = example.ancestors().nth(2);
    let folder = folder.ok_or(io::Error::other("the example is in no folder"))?;
    Ok(folder.join("evenkeel"))
}

/// See the module's documentation.
pub(crate) struct Top {
    child: Child,
    terminal: File,
}

impl Top {
    pub(crate) fn start(program: &Path, address: &str, plain: bool) -> io::Result<Self> {
        let OpenptyResult { master, slave } = openpty(Some(&SIZE), None)?;
        let slave = File::from(slave);
        let mut command = Command::new(program);
        command
            .args(["top", address])
            .args(plain.then_some("--plain"));
        command.stdin(slave.try_clone()?).stdout(slave);
        let child = command.stderr(Stdio::null()).spawn()?;
        let terminal = File::from(master);
        // What it draws is taken, or it would wait. The end of the program is an error here.
        let mut drawn = terminal.try_clone()?;
        std::thread::spawn(move || {
            let mut buffer = [0; 16 * 1024];
            while drawn.read(&mut buffer).is_ok_and(|length| length > 0) {}
        });
        Ok(Self { child, terminal })
    }

    /// The processor time of its threads so far, in nanoseconds.
    pub(crate) fn cpu(&self) -> io::Result<u64> {
        let mut used = 0;
        for thread in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let text = fs::read_to_string(thread?.path().join("schedstat"))?;
            let first = text.split_whitespace().next();
            used += first.and_then(|nanos| nanos.parse().ok()).unwrap_or(0);
        }
        Ok(used)
    }

    pub(crate) fn press(&mut self, keys: &str) -> io::Result<()> {
        self.terminal.write_all(keys.as_bytes())
    }

    /// Quits as a user would; `--plain` has no keys, and is stopped.
    pub(crate) fn end(mut self) -> io::Result<()> {
        self.terminal.write_all(b"q")?;
        std::thread::sleep(std::time::Duration::from_millis(500));
        self.child.kill()?;
        self.child.wait().map(drop)
    }
}
