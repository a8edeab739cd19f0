//! Settings by the environment, of a program that knows nothing of them.

use std::process::{Command, Output};

/// On Tokio itself, where these settings mean nothing.
fn is_off() -> bool {
    std::env::var("EVENKEEL").is_ok_and(|value| value == "off")
}

fn probe(settings: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tests-on-copy"));
    command.env("EVENKEEL_SETTINGS", settings).output().unwrap()
}

fn facts(settings: &str) -> String {
    let output = probe(settings);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn refusal(settings: &str) -> String {
    let output = probe(settings);
    assert!(!output.status.success(), "{settings} is taken");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn without_settings_the_program_decides() {
    for settings in ["", " , "] {
        let facts = facts(settings);
        assert!(facts.contains("workers: 2\n"), "{facts}");
        assert!(facts.contains("blocking at once: 3\n"), "{facts}");
    }
}

#[test]
fn whoever_operates_the_program_has_the_last_word() {
    let facts = facts("workers=3 thread_name=mine, max_blocking_threads=1 hand_off_after=off");
    if is_off() {
        assert!(facts.contains("workers: 2\n"), "{facts}");
        return;
    }
    assert!(facts.contains("workers: 3\n"), "{facts}");
    assert_eq!(
        facts.matches("thread: mine-").count(),
        3 + 1,
        "and a monitor: {facts}"
    );
    assert!(facts.contains("blocking at once: 1\n"), "{facts}");
}

#[test]
fn nothing_is_ignored() {
    if is_off() {
        return;
    }
    for (settings, part) in [
        ("worker=3", "there is no setting `worker`"),
        ("workers=0", "1 to 1024"),
        ("workers=many", "`workers` is \"many\": use a whole number"),
        (
            "hand_off_after=1",
            "use a whole number with `us`, `ms` or `s`",
        ),
        ("class.bulk.share=0", "1 to 10000"),
        ("class.gold.share=1", "`classes=gold` adds it"),
        ("classes=gold+bulk", "there is a class `bulk` already"),
        ("disk_threads=2", "`disk_threads` has no effect"),
    ] {
        let message = refusal(settings);
        assert!(
            message.contains("EVENKEEL_SETTINGS cannot be used"),
            "{message}"
        );
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
}

/// It is the way out, which has to be open whatever the settings are.
#[test]
fn switched_off_no_setting_keeps_the_program_from_starting() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tests-on-copy"));
    command
        .env("EVENKEEL", "off")
        .env("EVENKEEL_SETTINGS", "worker=3");
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
}

#[test]
fn the_switch_itself_is_not_guessed() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tests-on-copy"));
    let output = command.env("EVENKEEL", "of").output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(message.contains("variable EVENKEEL is "), "{message}");
}

#[test]
fn a_word_that_means_nothing_is_refused() {
    for variable in ["EVENKEEL", "EVENKEEL_FORCE", "EVENKEEL_REPORT"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tests-on-copy"));
        let output = command.env(variable, "yes").output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{variable} is taken");
        assert!(error.contains(variable), "{error}");
    }
}
