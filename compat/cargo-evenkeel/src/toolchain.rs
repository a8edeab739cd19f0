//! The platforms and the compiler of the toolchain that is called.

use std::process::Command;

use crate::project::cargo;

/// What keeps cargo from fetching what only other platforms than these and this one need. Nothing,
/// if all are asked for, as `cargo tree` can be.
pub(crate) fn platform_options(platforms: &[String]) -> Vec<String> {
    if platforms.iter().any(|platform| platform == "all") {
        return Vec::new();
    }
    // Cargo's word for this machine, which is there already.
    let others = platforms.iter().filter(|other| *other != "host-tuple");
    let these = host().into_iter().chain(others.cloned());
    these
        .flat_map(|platform| ["--filter-platform".into(), platform])
        .collect()
}

/// The platform that cargo builds for if nobody says anything.
fn host() -> Option<String> {
    let said = cargo().arg("-vV").output().ok()?.stdout;
    line_of(&String::from_utf8_lossy(&said), "host: ")
}

/// The compiler that cargo calls: its version, and its platform.
pub(crate) fn rustc_version() -> Option<(semver::Version, String)> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = Command::new(rustc).arg("-vV").output().ok()?.stdout;
    let said = String::from_utf8_lossy(&said);
    let version = line_of(&said, "release: ")?.parse().ok()?;
    Some((version, line_of(&said, "host: ")?))
}

/// What comes behind the name in the line that begins with it.
fn line_of(text: &str, name: &str) -> Option<String> {
    text.lines()
        .find_map(|line| Some(line.strip_prefix(name)?.to_owned()))
}
