//! `cargo xtask fuzz`: properties of servers with bytes that libFuzzer makes up.
//!
//! The program is `servers/proxy/fuzz`, or that of the server that stands before a colon, as in
//! `cameras:media`; it is built with what libFuzzer needs to see which code its bytes
//! reach, and with AddressSanitizer. Some of that are switches of the compiler that are not stable,
//! which `RUSTC_BOOTSTRAP` lets a stable one take. What is found and kept is in `target/fuzz`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cargo::{self, Cargo};

/// How long it looks, if nobody says otherwise.
const SECONDS: u64 = 60;

/// The switches: marks at each edge of the code, and at comparisons, whose values the next bytes
/// can have.
const FLAGS: &str = "--cfg evenkeel_fuzz -Zsanitizer=address \
    -Cunsafe-allow-abi-mismatch=sanitizer -Cdebug-assertions=on -Ccodegen-units=1 \
    -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";

/// What to run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    server: String,
    property: String,
    seconds: u64,
    /// Checks these, and looks for no others.
    files: Vec<String>,
}

impl Options {
    /// Reads what follows `cargo xtask fuzz`.
    pub(crate) fn parse(words: &[&str]) -> Result<Self, String> {
        let mut options = Self {
            server: "proxy".to_owned(),
            property: String::new(),
            seconds: SECONDS,
            files: Vec::new(),
        };
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            match word {
                "--seconds" => {
                    let number = words.next().and_then(|number| number.parse().ok());
                    options.seconds = number
                        .filter(|seconds| (1..=1_000_000).contains(seconds))
                        .ok_or("`--seconds` wants a number from 1 to 1000000")?;
                }
                _ if word.starts_with('-') => {
                    return Err(format!("`{word}` is not known; see `cargo xtask help`"));
                }
                _ if options.property.is_empty() => {
                    let (server, property) = word.split_once(':').unwrap_or(("proxy", word));
                    if !["proxy", "cameras"].contains(&server) {
                        return Err(format!(
                            "`{server}` has no properties; cameras and proxy have"
                        ));
                    }
                    server.clone_into(&mut options.server);
                    property.clone_into(&mut options.property);
                }
                _ => options.files.push(word.to_owned()),
            }
        }
        match options.property.as_str() {
            "" => Err("name a property, such as `request`; see `cargo xtask help`".to_owned()),
            _ => Ok(options),
        }
    }
}

/// Looks for bytes for which the property does not hold.
pub(crate) fn run(options: &Options) -> Result<()> {
    let program = built(&options.server)?;
    let folder = cargo::target_dir().join("fuzz");
    let [kept, found] = ["kept", "found"].map(|part| {
        let server = folder.join(part).join(&options.server);
        server.join(&options.property)
    });
    for folder in [&kept, &found] {
        let made = std::fs::create_dir_all(folder);
        made.with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let mut command = Command::new(&program);
    command
        .env("EVENKEEL_FUZZ", &options.property)
        // Threads of the proxy go on to the end.
        .env("ASAN_OPTIONS", "detect_leaks=0");
    if options.files.is_empty() {
        command
            .env("EVENKEEL_FUZZ_FOLDER", &kept)
            .arg(&kept)
            .arg(format!("-artifact_prefix={}/", found.display()))
            .arg(format!("-max_total_time={}", options.seconds))
            .args(["-timeout=20", "-rss_limit_mb=4096", "-print_final_stats=1"]);
    }
    let status = command.args(&options.files).status();
    let status = status.with_context(|| format!("cannot start {}", program.display()))?;
    ensure!(
        status.success(),
        "the property `{0}:{1}` does not hold ({status}); the bytes are in {2}, and `cargo xtask \
         fuzz {0}:{1} FILE` checks them again",
        options.server,
        options.property,
        found.display()
    );
    Ok(())
}

/// Builds the program for this machine.
fn built(server: &str) -> Result<PathBuf> {
    let output = Command::new("rustc")
        .args(["--print", "host-tuple"])
        .output();
    let output = output.context("cannot run rustc")?;
    let target = String::from_utf8(output.stdout).context("rustc's answer is not UTF-8")?;
    let target = target.trim();
    let folder = cargo::target_dir().join("fuzz");
    let program = format!("{server}-fuzz");
    Cargo::new(&format!("build --release --package {program}"))
        // It has to be named: else the flags would be for build scripts, too.
        .arg("--target")
        .arg(target)
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", FLAGS)
        .target_dir(&folder)?
        .run()?;
    Ok(folder.join(target).join("release").join(program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_times_and_files_are_understood() {
        let parsed = |line: &str| Options::parse(&line.split_whitespace().collect::<Vec<_>>());
        let options = parsed("request").unwrap();
        assert_eq!(
            (options.property.as_str(), options.seconds),
            ("request", SECONDS)
        );
        assert_eq!(parsed("chunks --seconds 5").unwrap().seconds, 5);
        let media = parsed("cameras:media").unwrap();
        assert_eq!((&*media.server, &*media.property), ("cameras", "media"));
        let error = parsed("txlog:records").unwrap_err();
        assert!(error.contains("has no properties"), "{error}");
        assert_eq!(parsed("chunks a b").unwrap().files, ["a", "b"]);
        assert!(parsed("").unwrap_err().contains("name a property"));
        for wrong in ["chunks --seconds 0", "chunks --seconds", "chunks --fast"] {
            parsed(wrong).expect_err(wrong);
        }
    }
}
