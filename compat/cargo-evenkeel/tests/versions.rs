//! The rules, on every version of Tokio that is supported.

use cargo_evenkeel::copy::Copy;
use cargo_evenkeel::{rules, upstream};
use std::path::Path;
use std::process::Command;

const RULES: &str = include_str!("../../overlay/rules.toml");

#[test]
fn every_rule_fits_each_version_that_it_is_for() {
    let target = tempfile::tempdir().unwrap();
    for upstream in upstream::supported() {
        upstream.fetch(target.path()).unwrap();
        let copy = Copy::prepare(&upstream, target.path());
        assert!(copy.is_ok(), "{}: {}", upstream.version, copy.unwrap_err());
    }
}

#[test]
fn every_rule_is_for_a_version_that_is_supported() {
    for rule in rules::parse(RULES).unwrap() {
        assert!(
            upstream::supported().any(|upstream| rule.is_for(&upstream.version)),
            "{}, {}",
            rule.file,
            rule.why
        );
    }
}

/// The newest is built, and run, by the tests of projects.
#[test]
fn the_copy_of_every_older_version_compiles() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("versions");
    for upstream in upstream::supported().skip(1) {
        upstream.fetch(&target).unwrap();
        let copy = Copy::prepare(&upstream, &target).unwrap();
        let output = Command::new("cargo")
            .args(["check", "--quiet", "--lib", "--features", "full,test-util"])
            .current_dir(copy.package("tokio"))
            .env("CARGO_TARGET_DIR", &target)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", upstream.version);
    }
}
