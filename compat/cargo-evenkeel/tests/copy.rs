//! Projects beside this package that have tests of their own, on Evenkeel and on Tokio.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_evenkeel::mode::Mode;

fn compat() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A copy of the project, as `cargo evenkeel` works in the project's folder. At a fixed place, so
/// that it is built again only where it has changed.
fn project(name: &str) -> PathBuf {
    let compat = compat();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let crates = compat.join("../crates").canonicalize().unwrap();
    for part in ["", "src", "src/bin", "tests"] {
        let Ok(entries) = fs::read_dir(compat.join(name).join(part)) else {
            continue;
        };
        fs::create_dir_all(folder.join(part)).unwrap();
        for entry in entries.flatten().filter(|entry| entry.path().is_file()) {
            let to = folder.join(part).join(entry.file_name());
            let text = fs::read_to_string(entry.path()).unwrap();
            // What is beside the project is not beside its copy.
            let text = text.replace("../../crates", &crates.display().to_string());
            if fs::read_to_string(&to).ok().as_ref() != Some(&text) {
                fs::write(to, text).unwrap();
            }
        }
    }
    folder
}

/// What a command of `cargo evenkeel` printed.
fn run(folder: &Path, words: &[&str], mode: Mode) -> String {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("projects");
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-evenkeel"));
    command
        .arg("evenkeel")
        .args(words)
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_PROFILE_TEST_DEBUG", "0");
    let output = command.envs(mode.environment()).output().unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{out}{err}");
    out.into_owned()
}

fn test(name: &str, modes: &[Mode]) -> PathBuf {
    let folder = project(name);
    // A lock file in the repository has to be as cargo writes it.
    let locked = compat().join(name).join("Cargo.lock").exists();
    let locked = locked.then_some("--locked");
    for mode in modes {
        let words = ["test", "--no-fail-fast"].into_iter().chain(locked);
        run(&folder, &words.collect::<Vec<_>>(), *mode);
    }
    folder
}

#[test]
fn the_tests_on_the_copy_pass_on_evenkeel_and_on_tokio() {
    test("tests-on-copy", &[Mode::Routed, Mode::Off]);
}

#[test]
fn routes_and_tenants_have_classes_on_evenkeel_and_none_on_tokio() {
    let folder = test("classes", &[Mode::Routed, Mode::Off, Mode::Forced]);
    let on = "/plain: Some(normal)\n/health: Some(urgent)\n/export: Some(bulk)\n\
              /video: Some(class 3)\n/plan: Some(normal)\n";
    assert_eq!(run(&folder, &["run"], Mode::Routed), on);
    let off = "/plain: None\n/health: None\n/export: None\n/video: None\n/plan: None\n";
    assert_eq!(run(&folder, &["run"], Mode::Off), off);
}

#[test]
fn features_above_tokio_work_on_the_evenkeel_beneath() {
    let folder = test("served", &[Mode::Routed, Mode::Off, Mode::Forced]);
    let said = run(&folder, &["doctor"], Mode::Routed);
    assert!(
        said.contains("note  evenkeel  is asked for `hyper` in "),
        "{said}"
    );
}
