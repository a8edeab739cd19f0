//! Whatever happens while cargo builds, people have their lock file afterwards.

mod support;

use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use support::{Project, fails, is_on_evenkeel, program, project, quick, succeeds};

const LOCK: &str = "Cargo.lock";
const ASIDE: &str = "Cargo.lock.yours";

/// Begins to build, and is in the build script when this returns.
fn held(project: &Project, command: &str) -> Child {
    let child = project.call().args([command]).spawn().unwrap();
    project.wait_for("started");
    child
}

fn signal(child: &Child, signal: Signal) {
    let id = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(id, signal).unwrap();
}

#[test]
fn a_build_that_was_killed_is_mended_by_the_next_call() {
    let project = quick();
    project.hold_builds();
    let lock = project.read(LOCK);
    let mut child = held(&project, "check");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(project.read(ASIDE), lock);
    assert!(project.read(LOCK).contains("tokio-traits"));
    // The cargo of the killed one.
    project.write("go on", "");
    let said = succeeds(&project.evenkeel(&["tree"]));
    assert!(said.contains("an earlier build was killed"), "{said}");
    assert_eq!(project.read(LOCK), lock);
    assert!(!project.has(ASIDE));
}

/// It had been about to write the lock file when its `cargo evenkeel` was killed, and the next one
/// had been faster.
#[test]
fn what_the_cargo_of_a_killed_build_writes_late_does_not_stay() {
    let project = quick();
    project.hold_builds();
    let lock = project.read(LOCK);
    let mut child = held(&project, "check");
    let ours = project.read(LOCK);
    project.write("go on", "");
    assert!(child.wait().unwrap().success());
    assert_eq!(project.read(LOCK), lock);

    project.write(LOCK, &ours);
    let said = succeeds(&project.evenkeel(&["tree"]));
    assert!(said.contains("has changed Cargo.lock since"), "{said}");
    assert_eq!(project.read(LOCK), lock);

    project.write(LOCK, &ours);
    std::fs::remove_dir_all(project.path().join("target")).unwrap();
    fails(
        &project.evenkeel(&["tree"]),
        &["Take yours", "`cargo check`"],
    );
    assert_eq!(project.read(LOCK), ours);
    succeeds(&project.cargo(&["check"]));
    succeeds(&project.evenkeel(&["tree"]));
}

/// Cargo is not told by whoever ends `cargo evenkeel` alone, and would build on.
#[test]
fn a_build_that_is_ended_brings_the_lock_file_back() {
    for end in [Signal::TERM, Signal::INT] {
        let project = quick();
        project.hold_builds();
        let lock = project.read(LOCK);
        let mut child = held(&project, "check");
        assert_ne!(project.read(LOCK), lock);
        signal(&child, end);
        assert!(!child.wait().unwrap().success(), "{end:?}");
        project.write("go on", "");
        assert_eq!(project.read(LOCK), lock);
        assert!(!project.has(ASIDE));
    }
}

#[test]
fn two_at_once_wait_for_each_other() {
    let project = project();
    let other = File::open(project.path()).unwrap();
    other.lock().unwrap();
    let mut command = project.call();
    let mut child = command
        .args(["tree"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(
        lines
            .next()
            .unwrap()
            .unwrap()
            .starts_with("waiting for another build")
    );
    assert!(child.try_wait().unwrap().is_none());
    drop(other);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_program_that_ends_leaves_a_later_build_its_lock_file() {
    let project = quick();
    project.hold_builds();
    let wait = "fn main() {\n    std::fs::write(\"runs\", \"\").unwrap();\n    \
        while !std::path::Path::new(\"end\").exists() {\n        \
        std::thread::sleep(std::time::Duration::from_millis(10));\n    }\n}\n";
    project.write("src/main.rs", wait);
    project.write("go on", "");
    let lock = project.read(LOCK);
    let mut program = held(&project, "run");
    project.wait_for("runs");
    assert_eq!(project.read(LOCK), lock);

    for name in ["go on", "started"] {
        std::fs::remove_file(project.path().join(name)).unwrap();
    }
    project.hold_builds();
    project.write("build.rs", &(project.read("build.rs") + "// Changed.\n"));
    let mut later = held(&project, "check");
    project.write("end", "");
    assert!(program.wait().unwrap().success());
    assert_eq!(project.read(ASIDE), lock);
    assert_ne!(project.read(LOCK), lock);
    project.write("go on", "");
    assert!(later.wait().unwrap().success());
    assert_eq!(project.read(LOCK), lock);
}

/// A build script that runs this, and says what came of it.
fn run_within(project: &Project, program: &str, arguments: &str, folder: &str) {
    let script = format!(
        "fn main() {{
            let mut command = std::process::Command::new({program:?});
            command.args({arguments}).current_dir({folder:?});
            let output = command.output().unwrap();
            let [out, err] = [&output.stdout, &output.stderr].map(|t| String::from_utf8_lossy(t));
            std::fs::write(\"said\", format!(\"{{}} {{out}}{{err}}\", output.status)).unwrap();
        }}\n"
    );
    project.write("build.rs", &script);
}

#[test]
fn a_build_script_that_looks_at_the_project_changes_no_lock_file() {
    let project = quick();
    let lock = project.read(LOCK);
    run_within(&project, "cargo", "[\"metadata\", \"--offline\"]", ".");
    succeeds(&project.evenkeel(&["check"]));
    assert!(
        project.read("said").starts_with("exit status: 0"),
        "{}",
        project.read("said")
    );
    assert_eq!(project.read(LOCK), lock);
    assert!(!project.has(ASIDE) && !project.has("Cargo.lock.before"));
}

#[test]
fn a_build_script_may_build_another_project_on_evenkeel_but_not_its_own() {
    let (outer, other) = (quick(), project());
    run_within(&outer, program(), "[\"evenkeel\", \"tree\"]", ".");
    succeeds(&outer.evenkeel(&["check"]));
    let said = outer.read("said");
    assert!(said.starts_with("exit status: 1"), "{said}");
    assert!(
        said.contains("in the middle of a build of the same project"),
        "{said}"
    );

    run_within(
        &outer,
        program(),
        "[\"evenkeel\", \"tree\"]",
        &other.path().display().to_string(),
    );
    succeeds(&outer.evenkeel(&["check"]));
    let said = outer.read("said");
    assert!(
        said.starts_with("exit status: 0") && said.contains("evenkeel-beneath v"),
        "{said}"
    );
}

#[test]
fn what_somebody_changed_meanwhile_stays() {
    let project = quick();
    project.hold_builds();
    let lock = project.read(LOCK);
    let mut child = held(&project, "check");
    let theirs = lock.replace(
        "[[package]]\nname = \"project\"",
        "[[package]]\nname = \"theirs\"",
    );
    project.write(LOCK, &theirs);
    project.write("go on", "");
    assert!(child.wait().unwrap().success());
    assert_eq!(project.read(LOCK), theirs);
    assert_eq!(project.read("Cargo.lock.before"), lock);
}

#[test]
fn a_runner_of_the_users_stays() {
    let project = quick();
    let lock = project.read(LOCK);
    project.write(
        ".cargo/config.toml",
        "[target.'cfg(unix)']\nrunner = [\"echo\", \"runs\"]\n",
    );
    let said = succeeds(&project.evenkeel(&["run"]));
    assert!(said.contains("runs "), "{said}");
    assert_eq!(project.read(LOCK), lock);
}

#[test]
fn a_failed_resolution_brings_the_lock_file_back() {
    let project = project();
    let lock = project.read(LOCK);
    fails(
        &project.evenkeel(&["check", "--features", "nope"]),
        &["nope"],
    );
    assert_eq!(project.read(LOCK), lock);
    is_on_evenkeel(&project.evenkeel(&["tree"]));
}

#[test]
fn the_lock_file_comes_back_with_its_rights_and_its_age() {
    let project = project();
    let path = project.path().join(LOCK);
    let rights = std::os::unix::fs::PermissionsExt::from_mode(0o640);
    std::fs::set_permissions(&path, rights).unwrap();
    let of = || {
        let file = std::fs::metadata(&path).unwrap();
        (file.permissions(), file.modified().unwrap())
    };
    let before = of();
    is_on_evenkeel(&project.evenkeel(&["tree"]));
    assert_eq!(of(), before);
}

#[test]
fn a_lock_file_elsewhere_stays_there() {
    let (project, elsewhere) = (project(), tempfile::tempdir().unwrap());
    let (path, real) = (project.path().join(LOCK), elsewhere.path().join("its.lock"));
    std::fs::rename(&path, &real).unwrap();
    std::os::unix::fs::symlink(&real, &path).unwrap();
    let lock = project.read(LOCK);
    is_on_evenkeel(&project.evenkeel(&["tree"]));
    assert_eq!(std::fs::read_link(&path).unwrap(), real);
    assert_eq!(std::fs::read_to_string(&real).unwrap(), lock);
}
