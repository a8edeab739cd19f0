//! `cargo evenkeel doctor`.

mod support;

use std::process::Stdio;
use support::{fails, lock_of, project, said, succeeds, unlocked};

#[test]
fn a_project_that_can_be_built_is_described() {
    let project = project();
    let before = project.everything();
    let said = succeeds(&project.evenkeel(&["doctor"]));
    for line in [
        "ok    tokio     1.54.1 in ",
        "ok    rules     all fit",
        "ok    init      not made",
        "ok    graph     one tokio, used by project\n",
        "ok    by tokio  files (its blocking threads), \
         processes that nobody waits for (its driver), signals",
        "ready: `cargo evenkeel build`",
    ] {
        assert!(said.contains(line), "no {line:?} in: {said}");
    }
    assert!(
        said.contains("rt-multi-thread") && !said.contains("parking_lot"),
        "{said}"
    );
    assert!(project.everything() == before, "something was changed");
}

#[test]
fn a_project_without_the_multi_thread_runtime_is_told_so() {
    let project = unlocked("tokio = { version = \"=1.54.1\", features = [\"rt\", \"net\"] }");
    project.write("Cargo.lock", &support::project().read("Cargo.lock"));
    let said = succeeds(&project.evenkeel(&["doctor"]));
    assert!(said.contains("note  features"), "{said}");
    assert!(said.contains("Without rt-multi-thread"), "{said}");
}

#[test]
fn what_is_permanent_is_told_and_whether_it_is_current() {
    let project = project();
    let lock = project.read("Cargo.lock");
    succeeds(&project.evenkeel(&["init"]));
    let said = succeeds(&project.evenkeel(&["doctor"]));
    assert!(
        said.contains("ok    init      permanent and current"),
        "{said}"
    );
    assert!(said.contains("one tokio, used by project"), "{said}");
    project.write("Cargo.lock", &lock);
    let parts = [
        "WRONG init",
        "tokio 1.54.1 itself",
        "Run `cargo evenkeel init`",
        "not ready",
    ];
    fails(&project.evenkeel(&["doctor"]), &parts);
}

#[test]
fn what_is_wrong_comes_with_what_to_do() {
    let newer = unlocked("tokio = \"1\"");
    newer.write("Cargo.lock", &lock_of("1.999.0"));
    let update = "                Take a newer cargo-evenkeel";
    fails(
        &newer.evenkeel(&["doctor"]),
        &["WRONG tokio     this project is locked", update],
    );
    let patched = project();
    patched.write(
        ".cargo/config.toml",
        "[patch.crates-io]\ntokio.path = \"mine\"\n",
    );
    fails(
        &patched.evenkeel(&["doctor"]),
        &["WRONG config    `tokio` is patched", "take that patch out"],
    );
    fails(
        &project().evenkeel(&["doctor", "--nonsense"]),
        &["`--nonsense` is no option"],
    );
}

#[test]
fn the_environment_is_told() {
    let project = project();
    let mut command = project.call();
    command
        .env("EVENKEEL", "off")
        .env("RUSTFLAGS", "--cfg tokio_unstable");
    let said = said(&command.args(["doctor"]).output().unwrap());
    assert!(said.contains("note  EVENKEEL  =off: programs"), "{said}");
    assert!(
        said.contains("note  RUSTFLAGS has tokio_unstable"),
        "{said}"
    );
}

#[test]
fn unstable_interfaces_are_told_wherever_they_are_switched_on() {
    let flags = "rustflags = [\"--cfg\", \"tokio_unstable\"]\n";
    for table in ["[build]", "[target.'cfg(unix)']"] {
        let project = project();
        project.write(".cargo/config.toml", "include = [\"flags.toml\"]\n");
        project.write(".cargo/flags.toml", &format!("{table}\n{flags}"));
        let doctor = |flags: Option<&str>| {
            let mut command = project.call();
            command.env_remove("RUSTFLAGS").arg("doctor");
            succeeds(
                &command
                    .envs(flags.map(|flags| ("RUSTFLAGS", flags)))
                    .output()
                    .unwrap(),
            )
        };
        let said = doctor(None);
        let [begin, end] = [
            "note  config    rustflags in ",
            "flags.toml has tokio_unstable",
        ];
        assert!(said.contains(begin) && said.contains(end), "{said}");
        // Those of the environment take their place.
        let said = doctor(Some("-Cdebuginfo=0"));
        assert!(!said.contains("tokio_unstable"), "{said}");
    }
}

#[test]
fn flags_of_the_configuration_may_be_in_the_environment() {
    let project = project();
    let doctor = |name: &str, flags: &str| {
        let mut command = project.call();
        command.env_remove("RUSTFLAGS").arg("doctor");
        succeeds(&command.env(name, flags).output().unwrap())
    };
    for name in [
        "CARGO_BUILD_RUSTFLAGS",
        "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS",
    ] {
        let said = doctor(name, "--cfg tokio_unstable");
        let note = format!("note  config    {name} has tokio_unstable");
        assert!(said.contains(&note), "{said}");
        let said = doctor(name, "-Cdebuginfo=0");
        assert!(!said.contains("tokio_unstable"), "{said}");
    }
}

#[test]
fn a_reader_who_has_gone_is_no_error() {
    let project = project();
    for closes_errors in [false, true] {
        let mut command = project.call();
        command.args(["doctor"]).env("EVENKEEL", "off");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        drop(child.stderr.take_if(|_| closes_errors));
        let output = child.wait_with_output().unwrap();
        assert_eq!(succeeds(&output), "");
    }
    let mut command = project.call();
    command
        .args(["doctor", "--nonsense"])
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn a_compiler_that_is_too_old_is_told() {
    let project = project();
    let script = "#!/bin/sh\necho 'release: 1.80.0\nhost: x86_64-unknown-linux-gnu'\n";
    project.write("rustc", script);
    let path = project.path().join("rustc");
    let rights = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&path, rights).unwrap();
    let mut command = project.call();
    let output = command
        .env("RUSTC", path)
        .args(["doctor"])
        .output()
        .unwrap();
    fails(&output, &["WRONG rust      1.80.0 is too old", "+stable"]);
}
