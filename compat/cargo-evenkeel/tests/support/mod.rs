//! Projects to try `cargo evenkeel` on. None needs a network, once Tokio is in cargo's cache.

#![allow(dead_code, reason = "each test program uses a part of this")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The version that the projects are locked to.
pub(crate) const VERSION: &str = "1.54.1";

/// A folder with a project in it.
pub(crate) struct Project {
    folder: tempfile::TempDir,
    /// Where it is built.
    target: PathBuf,
    /// Cargo's home, if it is not the usual one.
    home: Option<tempfile::TempDir>,
}

/// The manifest of a package that depends on Tokio as said.
pub(crate) fn manifest(name: &str, tokio: &str) -> String {
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
         [dependencies]\n{tokio}\n"
    )
}

/// A package that depends on Tokio, and is locked.
pub(crate) fn project() -> Project {
    let project = unlocked(&format!(
        "tokio = {{ version = \"={VERSION}\", features = [\"full\"] }}"
    ));
    project.write("Cargo.lock", locked());
    project
}

/// A package without a lock file.
pub(crate) fn unlocked(tokio: &str) -> Project {
    let project = Project {
        folder: tempfile::tempdir().unwrap(),
        target: target(),
        home: None,
    };
    project.write("Cargo.toml", &manifest("project", tokio));
    project.write("src/main.rs", "fn main() {}\n");
    project
}

/// Depends on Tokio where nobody builds it: for tests that look at what cargo does besides. Cargo
/// holds the folder that it builds in, so each has its own.
pub(crate) fn quick() -> Project {
    let mut project = project();
    project.target = project.path().join("target");
    let tokio = format!("tokio = {{ version = \"={VERSION}\", features = [\"full\"] }}");
    let text =
        manifest("project", "").replace("[dependencies]", "[target.'cfg(windows)'.dependencies]");
    project.write("Cargo.toml", &format!("{text}{tokio}\n"));
    project
}

/// The lock file of such a package. Also makes sure that all is in cargo's cache.
fn locked() -> &'static str {
    static LOCK: OnceLock<String> = OnceLock::new();
    LOCK.get_or_init(|| {
        let tokio = format!("tokio = {{ version = \"={VERSION}\", features = [\"full\"] }}");
        let project = unlocked(&tokio);
        if !project.evenkeel(&["metadata", "--quiet"]).status.success() {
            let mut online = project.call();
            online.env_remove("CARGO_NET_OFFLINE").arg("metadata");
            succeeds(&online.output().unwrap());
        }
        project.read("Cargo.lock")
    })
}

/// A lock file with this version of Tokio, which nobody has to have.
pub(crate) fn lock_of(version: &str) -> String {
    let tokio = |version| format!("name = \"tokio\"\nversion = \"{version}\"");
    locked().replace(&tokio(VERSION), &tokio(version))
}

pub(crate) fn program() -> &'static str {
    env!("CARGO_BIN_EXE_cargo-evenkeel")
}

/// Where all of these projects are built: the dependencies once.
pub(crate) fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("projects")
}

impl Project {
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Has it built elsewhere: what tests share there is one version of Tokio.
    pub(crate) fn build_in(&mut self, target: PathBuf) {
        self.target = target;
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Writes more at the end of a file.
    pub(crate) fn append(&self, name: &str, text: &str) {
        self.write(name, &(self.read(name) + text));
    }

    /// Writes a package that has nothing in it, and depends on this.
    pub(crate) fn add(&self, folder: &str, name: &str, version: &str, needs: &str) {
        let manifest = manifest(name, needs).replacen("0.1.0", version, 1);
        self.write(&format!("{folder}/Cargo.toml"), &manifest);
        self.write(&format!("{folder}/src/lib.rs"), "");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        let path = self.path().join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.path().join(name).exists()
    }

    /// Every file and folder, with its rights and what it says.
    pub(crate) fn everything(&self) -> Vec<(PathBuf, u32, Option<Vec<u8>>)> {
        let mut all = Vec::new();
        let mut folders = vec![self.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let rights = fs::metadata(&path).unwrap().permissions().mode();
                all.push((path.clone(), rights, fs::read(&path).ok()));
                if path.is_dir() {
                    folders.push(path);
                }
            }
        }
        all.sort();
        all
    }

    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.path())
            .env("CARGO_NET_OFFLINE", "true")
            .env("CARGO_TARGET_DIR", &self.target)
            .env_remove("EVENKEEL");
        if let Some(home) = &self.home {
            command.env("CARGO_HOME", home.path());
        }
        command
    }

    /// `cargo evenkeel`, of which the rest is to come.
    pub(crate) fn call(&self) -> Command {
        let mut command = self.command(program());
        command.arg("evenkeel");
        command
    }

    pub(crate) fn evenkeel(&self, arguments: &[&str]) -> Output {
        self.call().args(arguments).output().unwrap()
    }

    /// Plain cargo.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Output {
        self.command("cargo").args(arguments).output().unwrap()
    }

    /// From now on, has a home for cargo that is the usual one but for repositories: none of the
    /// tests' is left behind there.
    pub(crate) fn keep_repositories(&mut self) {
        let home = tempfile::tempdir().unwrap();
        let usual = cargo_evenkeel::config::cargo_home().unwrap();
        for entry in fs::read_dir(usual).unwrap().flatten() {
            if entry.file_name() != "git" {
                let to = home.path().join(entry.file_name());
                std::os::unix::fs::symlink(entry.path(), to).unwrap();
            }
        }
        self.home = Some(home);
    }

    /// Has a build script that says that it runs, and waits.
    pub(crate) fn hold_builds(&self) {
        let script = format!(
            "fn main() {{\n    let here = {:?};\n{HOLD}}}\n",
            self.path()
        );
        self.write("build.rs", &script);
    }

    pub(crate) fn wait_for(&self, name: &str) {
        let began = Instant::now();
        while !self.has(name) {
            assert!(began.elapsed() < Duration::from_secs(60), "no {name}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

const HOLD: &str = r#"
    println!("cargo::rerun-if-changed=never");
    let here = std::path::Path::new(here);
    std::fs::write(here.join("started"), "").unwrap();
    let began = std::time::Instant::now();
    while !here.join("go on").exists() && began.elapsed().as_secs() < 60 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
"#;

/// Both of its streams.
pub(crate) fn said(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{out}{err}")
}

#[track_caller]
pub(crate) fn succeeds(output: &Output) -> String {
    let said = said(output);
    assert!(output.status.success(), "{said}");
    said
}

/// It fails, and says all of this.
#[track_caller]
pub(crate) fn fails(output: &Output, parts: &[&str]) {
    let said = said(output);
    assert!(!output.status.success(), "{said}");
    for part in parts {
        assert!(said.contains(part), "no {part:?} in: {said}");
    }
}

/// The graph has the copy.
#[track_caller]
pub(crate) fn is_on_evenkeel(output: &Output) {
    let said = succeeds(output);
    assert!(
        said.contains("tokio v1.54.1 (") && said.contains("evenkeel-beneath v"),
        "{said}"
    );
}
