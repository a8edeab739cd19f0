//! The tests of `tests-on-copy/`, on Evenkeel and on Tokio.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A copy of the project, as `cargo evenkeel` works in the project's folder. At a fixed place, so
/// that it is built again only where it has changed.
fn project() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests-on-copy");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tests-on-copy");
    for part in ["", "src", "src/bin", "tests"] {
        fs::create_dir_all(folder.join(part)).unwrap();
        for entry in fs::read_dir(source.join(part)).unwrap().flatten() {
            let to = folder.join(part).join(entry.file_name());
            let text = fs::read(entry.path()).unwrap_or_default();
            let is_new = entry.path().is_file() && fs::read(&to).ok().as_ref() != Some(&text);
            if is_new {
                fs::write(to, text).unwrap();
            }
        }
    }
    folder
}

fn run(folder: &Path, off: bool) {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("projects");
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-evenkeel"));
    command
        .args(["evenkeel", "test", "--no-fail-fast"])
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_PROFILE_TEST_DEBUG", "0");
    if off {
        command.env("EVENKEEL", "off");
    }
    let output = command.output().unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{out}{err}");
}

#[test]
fn the_tests_on_the_copy_pass_on_evenkeel_and_on_tokio() {
    let folder = project();
    run(&folder, false);
    run(&folder, true);
}
