//! `append` and `read --follow` while the server is killed and started again, and when they are
//! interrupted.

use crate::support::piped::Piped;
use crate::support::program::{Server, run_command};

#[test]
fn append_and_follow_go_on_when_the_server_is_there_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start(directory.path(), &[]);
    let address = server.address;
    let shown = address.to_string();
    let mut follower = Piped::start(&["read", "--server", &shown, "--follow", "--count", "6"]);
    let mut appender = Piped::start(&["append", "--server", &shown]);
    for life in 0..3 {
        for number in 1..=2 {
            let sequence = 2 * life + number;
            appender.say(&format!("record {sequence}\n"));
            assert_eq!(appender.line(), sequence.to_string());
            assert_eq!(follower.line(), format!("{sequence}\trecord {sequence}"));
        }
        server.kill();
        server = Server::start_again(directory.path(), address, &[]);
    }
    let (done, said, errors) = appender.end();
    assert!(done && said.is_empty(), "{said}{errors}");
    let (done, said, errors) = follower.end();
    assert!(done && said.is_empty(), "{said}{errors}");
    let (_, said, _) = run_command(&["read", "--server", &shown]);
    assert_eq!(said.lines().count(), 6, "{said}");
}

#[test]
fn who_follows_says_that_another_log_is_there() {
    let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut server = Server::start(directory.path(), &[]);
    let address = server.address;
    let shown = address.to_string();
    assert!(run_command(&["append", "--server", &shown, "of this log"]).0);
    let mut follower = Piped::start(&["read", "--server", &shown, "--follow"]);
    assert_eq!(follower.line(), "1\tof this log");
    server.kill();
    let _server = Server::start_again(other.path(), address, &[]);
    let (done, said, errors) = follower.end();
    assert!(!done && said.is_empty(), "{said}{errors}");
    assert!(errors.contains("the reader was in log"), "{errors}");
}

#[test]
fn who_appends_is_told_that_a_backup_was_restored() {
    let directory = tempfile::tempdir().unwrap();
    let [log, saved, again] = ["log", "saved", "again"].map(|name| directory.path().join(name));
    let mut server = Server::start(&log, &[]);
    let address = server.address;
    let shown = address.to_string();
    let mut appender = Piped::start(&["append", "--server", &shown]);
    appender.say("one\n");
    assert_eq!(appender.line(), "1");
    let [from, to] = [&log, &saved].map(|path| path.to_str().unwrap());
    let (done, _, errors) = run_command(&["backup", from, to]);
    assert!(done, "{errors}");
    appender.say("two\nthree\n");
    assert_eq!((appender.line(), appender.line()), ("2".into(), "3".into()));
    server.kill();
    let (done, _, errors) = run_command(&["restore", to, again.to_str().unwrap()]);
    assert!(done, "{errors}");
    let _server = Server::start_again(&again, address, &[]);
    appender.say("other\n");
    assert_eq!(appender.line(), "2");
    let (done, said, errors) = appender.end();
    assert!(done && said.is_empty(), "{said}{errors}");
    assert!(
        errors.contains("now; what was acknowledged from 2 on may be gone"),
        "{errors}"
    );
}

#[test]
fn an_append_that_is_interrupted_says_what_became_of_each_record() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start(directory.path(), &[]);
    let shown = server.address.to_string();
    let mut appender = Piped::start(&["append", "--server", &shown]);
    appender.say("one\ntwo\n");
    assert_eq!((appender.line(), appender.line()), ("1".into(), "2".into()));
    server.kill();
    appender.say("three\n");
    // It has no outcome, and waits for the server.
    let said = appender.complaint();
    assert!(
        said.contains("cannot connect to") && said.contains("for 60 s, as --give-up-after says"),
        "{said}"
    );
    appender.interrupt();
    let (done, said, errors) = appender.end();
    assert!(!done && said.is_empty(), "{said}{errors}");
    let outcome = "stored: 1 to 2; surely not stored: 3; stored or not, which is unknown: none";
    // Its connection may have taken the record before its end was seen.
    let doubt = "stored: 1 to 2; surely not stored: none; stored or not, which is unknown: 3";
    assert!(
        errors.contains("interrupted") && (errors.contains(outcome) || errors.contains(doubt)),
        "{errors}"
    );
}

#[test]
fn who_waits_for_a_server_says_so_once_and_gives_up_in_time() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start(directory.path(), &[]);
    let shown = server.address.to_string();
    assert!(run_command(&["append", "--server", &shown, "one"]).0);
    let read = ["read", "--server", &shown, "--follow"];
    let limited = [&read[..], &["--give-up-after", "1"]].concat();
    let consumer = [&limited[..], &["--consumer", "billing"]].concat();
    let append = ["append", "--server", &shown, "--give-up-after", "1"];
    let mut patient = Piped::start(&read);
    let mut others = [&limited, &consumer, &append[..]].map(Piped::start);
    assert_eq!(patient.line(), "1\tone");
    for follower in &mut others[..2] {
        assert_eq!(follower.line(), "1\tone");
    }
    others[2].say("two\n");
    assert_eq!(others[2].line(), "2");
    for follower in [&mut patient].into_iter().chain(&mut others[..2]) {
        assert_eq!(follower.line(), "2\ttwo");
    }
    server.kill();
    others[2].say("three\n");
    for mut waiting in others {
        let said = waiting.complaint();
        assert!(said.contains("for 1 s, as --give-up-after says"), "{said}");
        let (done, said, errors) = waiting.end();
        assert!(!done && said.is_empty(), "{said}");
        // Once, and then the end.
        assert!(
            errors.starts_with("error: ") && errors.lines().count() == 1,
            "{errors}"
        );
    }
    let said = patient.complaint();
    assert!(said.contains("again for ever; --give-up-after"), "{said}");
}
