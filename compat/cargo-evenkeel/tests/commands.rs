//! What people write behind `cargo evenkeel`, and in which projects.

mod support;

use sha2::{Digest, Sha256};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use support::{
    Project, fails, is_on_evenkeel, lock_of, program, project, said, succeeds, unlocked,
};

/// Refused, with this advice, and nothing is changed.
#[track_caller]
fn is_refused(project: &Project, arguments: &[&str], parts: &[&str]) {
    let before = project.everything();
    fails(&project.evenkeel(arguments), parts);
    assert!(project.everything() == before, "something was changed");
}

#[test]
fn a_newer_tokio_is_refused_with_advice() {
    let project = unlocked("tokio = \"1\"");
    project.write("Cargo.lock", &lock_of("1.999.0"));
    let advice = "cargo update -p tokio --precise";
    is_refused(
        &project,
        &["build"],
        &["1.999.0", "newer cargo-evenkeel", advice],
    );
}

#[test]
fn a_pinned_tokio_is_refused_with_the_name_of_who_pins_it() {
    for pin in ["=1.1.0", "~1.1"] {
        let project = unlocked(&format!("tokio = \"{pin}\""));
        project.write("Cargo.lock", &lock_of("1.1.0"));
        let who = format!("project asks for tokio {pin}. Widen");
        is_refused(&project, &["build"], &["locked to tokio 1.1.0", &who]);
    }
}

/// Who follows a backtrace into the copy may edit it, and every later build would have that.
#[test]
fn a_copy_that_was_edited_is_made_again() {
    let mut project = project();
    project.build_in(project.path().join("target"));
    let again = "the copy is made again";
    assert!(!succeeds(&project.evenkeel(&["tree"])).contains(again));
    assert!(!succeeds(&project.evenkeel(&["tree"])).contains(again));
    let copies = fs::read_dir(project.path().join("target/evenkeel")).unwrap();
    let copy = copies.flatten().next().unwrap().path();
    let file = copy.join("evenkeel-beneath/src/lib.rs");
    let before = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{before}// Mine.\n")).unwrap();
    let said = succeeds(&project.evenkeel(&["tree"]));
    assert!(
        said.contains(again) && said.contains("src/lib.rs was changed"),
        "{said}"
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    fs::remove_file(&file).unwrap();
    assert!(succeeds(&project.evenkeel(&["tree"])).contains(again));
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
}

#[test]
fn two_tokios_are_refused() {
    for (version, advice) in [
        ("0.2.25", "before Tokio 1"),
        ("1.3.0", "cargo tree -i tokio@1.3.0"),
    ] {
        let project = project();
        let old = "old = { package = \"tokio\", path = \"old\" }\n";
        project.append("Cargo.toml", old);
        project.add("old", "tokio", version, "");
        succeeds(&project.cargo(&["metadata"]));
        is_refused(
            &project,
            &["check"],
            &["project would not run on Evenkeel", advice],
        );
    }
}

#[test]
fn a_source_that_is_not_there_is_told() {
    let project = project();
    let home = tempfile::tempdir().unwrap();
    let mut command = project.call();
    command
        .env("CARGO_HOME", home.path())
        .env("CARGO_TARGET_DIR", home.path().join("t"));
    let output = command.args(["build", "--offline"]).output().unwrap();
    fails(
        &output,
        &[
            "the source of tokio 1.54.1 is not on this machine",
            "cargo fetch",
        ],
    );
}

#[test]
fn a_changed_archive_is_refused() {
    let project = project();
    let home = tempfile::tempdir().unwrap();
    let cache = home.path().join("registry/cache/index");
    fs::create_dir_all(&cache).unwrap();
    fs::write(cache.join("tokio-1.54.1.crate"), "not as it was").unwrap();
    let mut command = project.call();
    command
        .env("CARGO_HOME", home.path())
        .env("CARGO_TARGET_DIR", home.path().join("t"));
    let output = command.args(["build", "--offline"]).output().unwrap();
    fails(
        &output,
        &["its checksum is", "Remove it, and run `cargo fetch`"],
    );
}

/// A release whose minor version there are rules for, and which nobody has tried.
#[test]
fn a_release_that_the_rules_do_not_fit_is_refused_with_one_that_they_do() {
    let home = tempfile::tempdir().unwrap();
    let cache = home.path().join("registry/cache/index");
    fs::create_dir_all(&cache).unwrap();
    let archive = cache.join("tokio-1.53.0.crate");
    let file = fs::File::create(&archive).unwrap();
    let packed = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    let mut packed = tar::Builder::new(packed);
    let mut header = tar::Header::new_gnu();
    header.set_size(0);
    packed
        .append_data(&mut header, "tokio-1.53.0/src/lib.rs", &[][..])
        .unwrap();
    packed.into_inner().unwrap().finish().unwrap();
    let sum = Sha256::digest(fs::read(&archive).unwrap());
    let sum: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();

    let project = unlocked("tokio = \"1\"");
    let lock = lock_of("1.53.0");
    // Where it is from stays as it is.
    let (before, after) = lock.split_once("version = \"1.53.0\"").unwrap();
    let (source, after) = after.split_once("checksum = ").unwrap();
    let (_, after) = after.split_once('\n').unwrap();
    let tokio = format!("version = \"1.53.0\"{source}checksum = \"{sum}\"\n");
    project.write("Cargo.lock", &[before, &tokio, after].concat());
    let mut command = project.call();
    command
        .env("CARGO_HOME", home.path())
        .env("CARGO_TARGET_DIR", home.path().join("t"));
    let output = command.args(["build", "--offline"]).output().unwrap();
    let parts = [
        "tokio 1.53.0 is not as this program knows it: src/",
        "It was tried with 1.54.1, 1.53.3, 1.52.4. Take one",
        "cargo update -p tokio --precise 1.53.3",
    ];
    fails(&output, &parts);
}

#[test]
fn an_unknown_feature_is_told() {
    is_refused(&project(), &["check", "--features", "nope"], &["nope"]);
}

#[test]
fn locked_and_frozen_are_what_they_say() {
    for option in ["--locked", "--frozen"] {
        let project = unlocked("tokio = \"=1.54.1\"");
        is_refused(&project, &["check", option], &["--locked"]);
        is_on_evenkeel(&support::project().evenkeel(&["tree", option]));
    }
}

#[test]
fn a_project_without_a_lock_file_gets_its_own() {
    let locked = project();
    let project = unlocked("tokio = { version = \"=1.54.1\", features = [\"full\"] }");
    is_on_evenkeel(&project.evenkeel(&["tree"]));
    assert_eq!(project.read("Cargo.lock"), locked.read("Cargo.lock"));
}

fn workspace() -> Project {
    let locked = project();
    locked.write(
        "Cargo.toml",
        "[workspace]\nresolver = \"3\"\nmembers = [\"a\", \"b\"]\n",
    );
    let tokio = "tokio = { version = \"=1.54.1\", features = [\"full\"] }";
    locked.add("a", "project", "0.1.0", tokio);
    locked.add("b", "b", "0.1.0", "project = { path = \"../a\" }");
    succeeds(&locked.cargo(&["metadata"]));
    locked
}

#[test]
fn workspaces_are_built_from_every_folder_of_theirs() {
    let project = workspace();
    let lock = project.read("Cargo.lock");
    is_on_evenkeel(&project.evenkeel(&["tree"]));
    is_on_evenkeel(&project.evenkeel(&["tree", "-p", "b"]));
    let mut within = project.call();
    within.current_dir(project.path().join("b/src"));
    is_on_evenkeel(&within.args(["tree"]).output().unwrap());
    assert_eq!(project.read("Cargo.lock"), lock);
    assert!(!project.has("b/Cargo.lock"));
}

#[test]
fn words_for_platforms_are_what_cargo_takes_them_for() {
    let project = project();
    for platform in ["all", "host-tuple"] {
        is_on_evenkeel(&project.evenkeel(&["tree", "--target", platform]));
    }
}

#[test]
fn options_reach_every_cargo_that_is_called() {
    let project = project();
    let elsewhere = tempfile::tempdir().unwrap();
    let manifest = project.path().join("Cargo.toml").display().to_string();
    for option in [
        vec!["--manifest-path", &manifest],
        vec![&format!("--manifest-path={manifest}")],
    ] {
        let mut command = project.call();
        command
            .current_dir(elsewhere.path())
            .args(["tree", "--offline"]);
        is_on_evenkeel(&command.args(option).output().unwrap());
    }
    is_on_evenkeel(&project.evenkeel(&["--offline", "tree"]));
}

#[test]
fn the_copy_lies_where_cargo_builds() {
    for options in [
        &["--target-dir", "there"][..],
        &["--target-dir=there"],
        &["--target-dir", "src/../there"],
        &["--config", "build.target-dir='there'"],
    ] {
        let project = project();
        let mut command = project.call();
        command.env_remove("CARGO_TARGET_DIR").args(["fetch"]);
        if options[0] != "--config" {
            // `fetch` has no such option of its own.
            command = project.call();
            command
                .env_remove("CARGO_TARGET_DIR")
                .args(["check", "-p", "bytes"]);
        }
        succeeds(&command.args(options).output().unwrap());
        assert!(
            project.has("there/evenkeel") && !project.has("target"),
            "{options:?}"
        );
    }
}

#[test]
fn another_patch_of_tokio_is_refused_with_its_place() {
    let patch = "[patch.crates-io]\ntokio = { path = \"mine\" }\n";
    let on_the_line = "patch.crates-io.tokio.path='mine'";
    is_refused(
        &project(),
        &["build", "--config", on_the_line],
        &["--config", "take that patch out"],
    );
    let configured = project();
    configured.write(".cargo/config.toml", patch);
    is_refused(
        &configured,
        &["build"],
        &[".cargo/config.toml", "take that patch out"],
    );
    let patched = project();
    patched.append("Cargo.toml", patch);
    patched.add("mine", "tokio", "1.54.1", "");
    is_refused(&patched, &["build"], &["Cargo.toml", "take that patch out"]);
}

#[test]
fn commands_that_write_the_lock_file_are_refused() {
    let project = project();
    project.write(".cargo/config.toml", "[alias]\nup = \"update\"\n");
    for command in [
        "update",
        "add",
        "publish",
        "package",
        "generate-lockfile",
        "vendor",
        "up",
    ] {
        is_refused(&project, &[command], &["Run `cargo", "itself"]);
    }
    is_refused(
        &project,
        &["remove", "tokio"],
        &["Run `cargo remove` itself"],
    );
    let manifest = project.path().join("Cargo.toml").display().to_string();
    succeeds(&project.evenkeel(&["remove", "--manifest-path", &manifest]));
}

#[test]
fn a_program_beside_cargo_is_refused_as_it_would_build_on_tokio() {
    is_refused(
        &project(),
        &["nextest", "run"],
        &["nextest", "cargo evenkeel init"],
    );
}

#[test]
fn a_mistyped_command_is_told_from_a_program_beside_cargo() {
    let project = project();
    for (typed, meant) in [("biuld", "build"), ("docter", "doctor")] {
        let advice = format!("there is no command `{typed}`; did you mean `{meant}`?");
        is_refused(&project, &[typed], &[&advice]);
    }
    let program = tempfile::tempdir().unwrap();
    fs::write(program.path().join("cargo-biuld"), "").unwrap();
    let mut command = project.call();
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{path}:{}", program.path().display()));
    let output = command.arg("biuld").output().unwrap();
    fails(&output, &["cargo evenkeel init"]);
}

#[test]
fn aliases_are_what_they_stand_for() {
    let project = project();
    project.write(
        ".cargo/config.toml",
        "[alias]\nwho = [\"tree\", \"-i\", \"evenkeel-beneath\"]\n",
    );
    let said = succeeds(&project.evenkeel(&["who", "--depth", "1"]));
    assert!(said.starts_with("evenkeel-beneath v"), "{said}");
}

#[test]
fn a_toolchain_is_asked_for_as_with_cargo() {
    let project = project();
    fails(
        &project.evenkeel(&["+no-such-toolchain", "tree"]),
        &["no-such-toolchain"],
    );
    // In the place of rustup's.
    let script = "#!/bin/sh\necho \"$RUSTUP_TOOLCHAIN $*\" >> calls\n\
        case $1 in +*) exit ;; esac\nunset RUSTUP_TOOLCHAIN\nexec \"$REAL\" \"$@\"\n";
    project.write("bin/cargo", script);
    let path = project.path().join("bin/cargo");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = project.call();
    let search = format!(
        "{}/bin:{}",
        project.path().display(),
        std::env::var("PATH").unwrap()
    );
    command
        .env("PATH", search)
        .env("REAL", std::env::var_os("CARGO").unwrap());
    is_on_evenkeel(&command.args(["+other", "tree"]).output().unwrap());
    let calls = project.read("calls");
    let (first, rest) = calls.split_once('\n').unwrap();
    assert!(first.ends_with("+other --version --quiet"), "{calls}");
    assert!(
        rest.lines().all(|call| call.starts_with("other ")),
        "{calls}"
    );
    assert!(
        rest.contains("other --config patch.crates-io.tokio.path="),
        "{calls}"
    );
}

#[test]
fn a_folder_that_cannot_be_written_to_is_told() {
    let project = project();
    let here = project.path().display();
    let target = tempfile::tempdir().unwrap();
    // Root may write everywhere else.
    let script = format!(
        "mount --bind {here} {here} && mount -o remount,bind,ro {here} && cd {here} && \
         exec {} evenkeel check",
        program()
    );
    let mut command = project.command("unshare");
    command.env("CARGO_TARGET_DIR", target.path());
    let output = command.args(["-rm", "sh", "-c", &script]).output();
    let Some(output) = output.ok().filter(|output| !said(output).contains("ermi")) else {
        eprintln!("NOT CHECKED: this system mounts nothing for tests");
        return;
    };
    fails(&output, &["cannot be written to", "cargo evenkeel init"]);
}

#[test]
fn a_command_that_does_not_build_is_cargos_own() {
    let project = project();
    let target = project.path().join("built");
    project.write("built/CACHEDIR.TAG", "");
    let mut command = project.call();
    command.env("CARGO_TARGET_DIR", &target);
    succeeds(&command.args(["clean"]).output().unwrap());
    assert!(!target.exists());
    assert!(succeeds(&project.evenkeel(&["build", "--help"])).contains("cargo build"));
    fails(&project.evenkeel(&["--offline"]), &["there is no command"]);
}
