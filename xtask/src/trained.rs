//! `cargo xtask trained`: the proxy, built by what it does most.
//!
//! A build with counters does the operations of the benchmark `beside_haproxy`, and what it counted
//! tells the compiler which branches and calls are common ("profile-guided optimization" in the
//! book of rustc, <https://doc.rust-lang.org/rustc/profile-guided-optimization.html>).

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cargo::{self, Cargo};

/// Builds it, which takes two builds with the profile `dist` and one of the benchmark.
pub(crate) fn run() -> Result<()> {
    let toolchain = Toolchain::ask()?;
    let merger = toolchain.merger()?;
    // Now, and not after the first build.
    output(Command::new("h2load").arg("--version"))
        .context("the client of HTTP/2 is missing: install nghttp2-client")?;
    let folder = cargo::target_dir().join("trained");
    let counts = folder.join("counts");
    // What was built by other counts is not taken for built: cargo does not look into them.
    for old in [&counts, &folder.join("program")] {
        if old.exists() {
            std::fs::remove_dir_all(old)?;
        }
    }
    let build = |name: &str, flag: &str, file: &Path| -> Result<PathBuf> {
        let folder = folder.join(name);
        let file = file.to_str().context("the target directory is not UTF-8")?;
        // With a target named, the flag is not for what runs while building.
        Cargo::new("build --profile dist --package proxy --target")
            .arg(&toolchain.host)
            .env("CARGO_ENCODED_RUSTFLAGS", format!("{flag}={file}"))
            .target_dir(&folder)?
            .run()?;
        Ok(folder.join(&toolchain.host).join("dist/evenkeel-proxy"))
    };
    println!("1/3 the proxy with counters");
    let counting = build("counting", "-Cprofile-generate", &counts)?;
    println!("2/3 what it does most");
    let counting = counting.to_str().context("it was given to cargo")?;
    let file = counts.join("%m_%p.profraw");
    let file = file.to_str().context("it was given to cargo")?;
    Cargo::new("bench --package proxy --bench beside_haproxy -- --learn --program")
        .arg(counting)
        // A file that somebody has named for all programs is not meant for this one.
        .env("LLVM_PROFILE_FILE", file)
        .run()?;
    let counted = folder.join("counted.profdata");
    merge(&merger, &counts, &counted)?;
    println!("3/3 the proxy, by these counts");
    let program = build("program", "-Cprofile-use", &counted)?;
    println!("{}", program.display());
    Ok(())
}

/// What `rustc -vV` says.
struct Toolchain {
    host: String,
    /// The first number of LLVM's version.
    llvm: String,
}

impl Toolchain {
    fn ask() -> Result<Self> {
        Self::read(&output(Command::new("rustc").arg("-vV"))?)
    }

    fn read(text: &str) -> Result<Self> {
        let said = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name));
            value.with_context(|| format!("`rustc -vV` does not say `{name}`"))
        };
        let llvm = said("LLVM version: ")?;
        Ok(Self {
            host: said("host: ")?.to_owned(),
            llvm: llvm.split('.').next().unwrap_or(llvm).to_owned(),
        })
    }

    /// The program that reads counts: of rustup, or of a system's LLVM of the same version.
    fn merger(&self) -> Result<PathBuf> {
        let root = output(Command::new("rustc").args(["--print", "sysroot"]))?;
        let of_rustup = Path::new(root.trim())
            .join("lib/rustlib")
            .join(&self.host)
            .join("bin/llvm-profdata");
        if of_rustup.exists() {
            return Ok(of_rustup);
        }
        let of_system = format!("llvm-profdata-{}", self.llvm);
        let is_there = Command::new(&of_system).arg("--version").output().is_ok();
        ensure!(
            is_there,
            "{of_system}, which reads what a program has counted, is not there: install it by \
             `rustup component add llvm-tools`, or as the system's package llvm-{}",
            self.llvm
        );
        Ok(of_system.into())
    }
}

fn merge(merger: &Path, counts: &Path, into: &Path) -> Result<()> {
    let mut command = Command::new(merger);
    command.args(["merge", "-o"]).arg(into).arg(counts);
    let status = command.status();
    let status = status.with_context(|| format!("cannot start {}", merger.display()))?;
    ensure!(status.success(), "{command:?} failed ({status})");
    Ok(())
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.output();
    let output = output.with_context(|| format!("cannot start {command:?}"))?;
    ensure!(output.status.success(), "{command:?} failed");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_toolchain_says_its_host_and_the_version_of_llvm() {
        let text = "rustc 1.95.0 (abc 2026-04-14)\nhost: x86_64-unknown-linux-gnu\n\
                    release: 1.95.0\nLLVM version: 22.1.2\n";
        let toolchain = Toolchain::read(text).unwrap();
        assert_eq!(toolchain.host, "x86_64-unknown-linux-gnu");
        assert_eq!(toolchain.llvm, "22");
        let error = Toolchain::read("rustc 1.95.0\n").map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("LLVM version"), "{error}");
    }
}
