//! Passes the compiler's version to the report: a result without its compiler is half a result.
use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RUSTC");
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc)
        .arg("--version")
        .output()
        .ok()
        .filter(|output| output.status.success())
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .unwrap_or_else(|| "unknown".into());
    println!("cargo::rustc-env=LAB_RUSTC_VERSION={}", version.trim());
    let profile = env::var("PROFILE").unwrap_or_else(|_| "unknown".into());
    println!("cargo::rustc-env=LAB_BUILD_PROFILE={profile}");
}
