//! The command line as users meet it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::program::{Server, run_command, wait};
use serde_json::{Value, json};

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_txlog"));
    command.args(arguments).stdout(Stdio::piped());
    command
}

#[test]
fn help_teaches_every_command() {
    let (done, said, errors) = run_command(&["--help"]);
    assert!(done && errors.is_empty(), "{errors}");
    for command in [
        "serve", "append", "read", "ping", "logs", "cursors", "verify", "bench",
    ] {
        assert!(said.contains(command), "{said}");
        let (done, said, errors) = run_command(&[command, "--help"]);
        assert!(
            done && errors.is_empty() && said.contains("Usage: txlog"),
            "{said}{errors}"
        );
    }
}

#[test]
fn what_is_appended_is_read_and_survives_an_end_by_ctrl_c() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let mut server = Server::start(&path, &[]);
    let address = server.address.to_string();
    let (done, said, errors) = run_command(&["append", "--server", &address, "one", "two"]);
    assert!(done, "{errors}");
    assert_eq!(said, "1\n2\n");
    let mut child = program(&["append", "--server", &address])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"three\nfour\n")
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"3\n4\n");
    let (done, said, _) = run_command(&["ping", "--server", &address, "--count", "1"]);
    assert!(done && said.contains("answered in"), "{said}");
    server.signal("INT");
    assert!(server.ended().success());
    let (done, said, errors) = run_command(&["verify", path.to_str().unwrap()]);
    assert!(
        done && said.ends_with("in all: records 1 to 4\n"),
        "{said}{errors}"
    );
    let server = Server::start(&path, &[]);
    let address = server.address.to_string();
    let (done, said, _) = run_command(&["read", "--server", &address, "--from", "2"]);
    assert!(done);
    assert_eq!(said, "2\ttwo\n3\tthree\n4\tfour\n");
}

#[test]
fn who_follows_sees_what_comes() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let address = server.address.to_string();
    let follow = ["read", "--server", &address, "--follow", "--count", "2"];
    let mut follower = program(&follow).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    assert!(run_command(&["append", "--server", &address, "first"]).0);
    assert_eq!(lines.next().unwrap().unwrap(), "1\tfirst");
    assert!(run_command(&["append", "--server", &address, "second"]).0);
    assert_eq!(lines.next().unwrap().unwrap(), "2\tsecond");
    assert!(wait(&mut follower).success());
}

#[test]
fn what_cannot_be_done_is_one_line_and_a_failure() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let server = Server::start(directory.path(), &[]);
    let taken = server.address.to_string();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = free.local_addr().unwrap().to_string();
    drop(free);
    let (other, another_service) = greeter();
    let (empty, fresh) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let empty_file = tempfile::NamedTempFile::new().unwrap();
    let empty = empty.path().to_str().unwrap();
    let fresh = fresh.path().to_str().unwrap();
    let file = empty_file.path().to_str().unwrap();
    let mistakes: [(&[&str], &str); 13] = [
        (
            &["serve", "--dir", path],
            "another server has this directory",
        ),
        (
            &["serve", "--dir", fresh, "--listen", &taken],
            "end it, or take another port",
        ),
        (
            &["serve", "--dir", fresh, "--listen", "somewhere"],
            "give host and port",
        ),
        (&["serve", "--dir", file], "a file is where a directory"),
        (
            &["serve", "--dir", fresh, "--memory-bytes", "1000000"],
            "give at least",
        ),
        (&["read", "--server", "localhost"], "give host and port"),
        (&["serve", "--nats", &nobody], "cannot connect to NATS"),
        (
            &["append", "--server", &nobody, "x"],
            "does `txlog serve` run there?",
        ),
        (&["verify", empty], "holds no log"),
        (&["verify", "/no/such"], "see whether the path is right"),
        (&["bench", path], "is not empty"),
        (&["bench", file], "a file is where a directory"),
        (
            &["append", "--server", &other, "x"],
            "is that the port of another service?",
        ),
    ];
    for (arguments, says) in mistakes {
        let (done, said, errors) = run_command(arguments);
        assert!(!done && said.is_empty(), "{arguments:?}: {said}");
        let line = errors.lines().last().unwrap_or_default();
        assert!(
            line.starts_with("error: ") && line.contains(says),
            "{arguments:?}: {errors}"
        );
    }
    drop(server);
    another_service.join().unwrap();
}

/// All files below a directory, by their paths.
fn files_below(path: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        }
        files.push(path);
    }
    files.sort();
    files
}

#[test]
fn what_is_refused_leaves_nothing_in_a_logs_directory() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (log, link) = (path("log"), path("link"));
    drop(Server::start(Path::new(&log), &[]));
    std::os::unix::fs::symlink(&log, &link).unwrap();
    fs::create_dir(path("logs")).unwrap();
    fs::create_dir(path("logs/one")).unwrap();
    let inside = path("log/below/it");
    let around = path("none/../log/it");
    let (by_link, fresh) = (path("link/it"), path("fresh"));
    let fresh_logs = path("fresh/logs");
    let (logs, copy) = (path("logs"), path("copy"));
    let before = files_below(directory.path());
    for (arguments, says) in [
        (
            &["backup", &log, &inside][..],
            "is inside the log's directory",
        ),
        (&["backup", &log, &by_link], "is inside the log's directory"),
        (&["backup", &link, &around], "is inside the log's directory"),
        (&["backup", &log, &link], "is the log's directory"),
        (&["restore", &log, &inside], "is inside the log's directory"),
        (
            &["serve", "--dir", &log, "--logs", &by_link],
            "take one beside it",
        ),
        (
            &["serve", "--dir", &fresh, "--logs", &fresh_logs],
            "take one beside it",
        ),
        (
            &["serve", "--dir", &fresh, "--logs", &fresh],
            "take one beside it",
        ),
        (&["backup", &logs, &copy], "one is no file of the log"),
        (&["restore", &logs, &copy], "one is no file of the log"),
    ] {
        let (done, _, errors) = run_command(arguments);
        assert!(!done && errors.contains(says), "{arguments:?}: {errors}");
        assert_eq!(files_below(directory.path()), before, "{arguments:?}");
    }
    drop(Server::start(Path::new(&log), &["--logs", &logs]));
    // Beside it, though its name begins like the log's.
    let (done, _, errors) = run_command(&["backup", &log, &path("log2")]);
    assert!(done, "{errors}");
}

/// Records of exactly the limit are taken; of a longer line no more is read than shows that.
#[test]
fn the_largest_record_is_as_large_as_the_server_says() {
    for (options, limit) in [
        (&[][..], 1 << 20),
        (&["--record-bytes-max", "3000000"], 3_000_000),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(directory.path(), options);
        let address = server.address.to_string();
        let mut child = program(&["append", "--server", &address])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(&vec![b'x'; limit]).unwrap();
        input.write_all(b"\n").unwrap();
        // The line does not end, and neither does the input.
        input.write_all(&vec![b'y'; limit + 1]).unwrap();
        input.flush().unwrap();
        assert!(!wait(&mut child).success());
        drop(input);
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "1\n");
        let errors = String::from_utf8_lossy(&output.stderr);
        let said = format!("record 2 of the input has more than {limit} bytes");
        assert!(errors.contains(&said), "{errors}");
        assert!(
            errors.contains("stored: 1; surely not stored: 2"),
            "{errors}"
        );
        let read = ["read", "--server", &address];
        assert_eq!(run_command(&read).1.len(), limit + "1\t\n".len());
    }
}

#[test]
fn a_file_of_the_log_cannot_be_smaller_than_a_record() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    // If the size were taken, it would end with the address, behind the log's making.
    let serve = [
        "serve",
        "--listen",
        "nowhere",
        "--dir",
        log.to_str().unwrap(),
    ];
    let (done, _, errors) = run_command(&[&serve[..], &["--segment-bytes", "99"]].concat());
    assert!(!done && errors.contains("100.."), "{errors}");
    assert!(!log.exists());
}

#[test]
fn what_is_for_deployment_has_room_for_logs_beside_the_one_without_a_name() {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy");
    for (name, state) in [
        ("txlog.service", "StateDirectory=txlog\n"),
        ("Containerfile", "VOLUME /var/lib/txlog\n"),
    ] {
        let text = fs::read_to_string(deploy.join(name)).unwrap();
        assert!(text.contains(state), "{name}");
        let words = text.replace([',', '"', '[', ']'], " ");
        let words: Vec<_> = words.split_whitespace().collect();
        let after = |option| {
            let at = words.iter().position(|word| *word == option);
            at.map(|at| words[at + 1])
        };
        assert_eq!(after("--dir"), Some("/var/lib/txlog/main"), "{name}");
        assert_eq!(after("--logs"), Some("/var/lib/txlog/logs"), "{name}");
    }
}

/// A server that answers one connection with something no txlog says.
fn greeter() -> (String, std::thread::JoinHandle<()>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let greets = move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"220 mail.example ESMTP\r\n").unwrap();
        // Until the client closes the connection.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    };
    (address, std::thread::spawn(greets))
}

#[test]
fn an_append_that_fails_says_which_it_was_and_what_became_of_those_before() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &["--record-bytes-max", "10"]);
    let address = server.address.to_string();
    for (records, printed, durable) in [
        (
            &["one", "two", "much too long", "four"][..],
            "1\n2\n",
            "stored: 1 to 2; surely not stored: 3; stored or not, which is unknown: none",
        ),
        (
            &["three", "much too long"],
            "3\n",
            "stored: 1; surely not stored: 2",
        ),
        (&["much too long"], "", "stored: none; surely not stored: 1"),
    ] {
        let mut arguments = vec!["append", "--server", &address];
        arguments.extend(records);
        let (done, said, errors) = run_command(&arguments);
        assert!(!done);
        assert_eq!(said, printed, "{errors}");
        let number = printed.lines().count() + 1;
        assert!(
            errors.contains(&format!("error: record {number} of the input: ")),
            "{errors}"
        );
        assert!(
            errors.contains("--record-bytes-max") && errors.contains(durable),
            "{errors}"
        );
    }
    let (done, said, errors) = run_command(&["read", "--server", &address]);
    assert!(done, "{errors}");
    assert_eq!(said, "1\tone\n2\ttwo\n3\tthree\n");
}

#[test]
fn who_reads_what_is_not_there_hears_where_the_log_is() {
    let directory = tempfile::tempdir().unwrap();
    let retention = ["--segment-bytes", "100", "--keep-records", "1"];
    let server = Server::start(directory.path(), &retention);
    let address = server.address.to_string();
    let read = |from: &str| run_command(&["read", "--server", &address, "--from", from]);
    let (done, said, errors) = read("0");
    assert!(done && said.is_empty());
    assert!(
        errors.contains("no record from 1 on; the next one to come is 1"),
        "{errors}"
    );
    for number in ["one", "two", "three"] {
        assert!(run_command(&["append", "--server", &address, number]).0);
    }
    let (done, said, errors) = read("4");
    assert!(done && said.is_empty());
    assert!(
        errors.contains("no record from 4 on; the next one to come is 4"),
        "{errors}"
    );
    let (done, said, errors) = read("9");
    assert!(!done && said.is_empty());
    assert!(
        errors.contains("no record from 9 on") && errors.contains("the next one to come is 4"),
        "{errors}"
    );
    // Records that need not be kept are removed within the next seconds.
    let began = std::time::Instant::now();
    loop {
        let (done, _, errors) = read("1");
        if !done {
            assert!(
                errors.contains("record 1 is no longer kept; the oldest is "),
                "{errors}"
            );
            assert!(errors.contains("read from there on"), "{errors}");
            break;
        }
        assert!(
            began.elapsed() < crate::support::LIMIT,
            "record 1 is still kept"
        );
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn a_read_resumes_from_the_cursor_of_the_one_before() {
    let (first, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start(first.path(), &[]);
    let address = server.address.to_string();
    let appended = run_command(&["append", "--server", &address, "one", "two", "three"]);
    assert!(appended.0);
    let read = |address: &str, more: &[&str]| {
        let mut arguments = vec!["read", "--server", address, "--show-cursor"];
        arguments.extend(more);
        run_command(&arguments)
    };
    let (done, said, errors) = read(&address, &["--count", "2"]);
    assert!(done && said == "1\tone\n2\ttwo\n", "{said}{errors}");
    let cursor = errors.trim_end().strip_prefix("cursor: ").unwrap();
    assert!(cursor.ends_with("-3"), "{cursor}");
    let (done, said, errors) = read(&address, &["--cursor", cursor]);
    assert!(done && said == "3\tthree\n", "{said}{errors}");
    assert!(errors.trim_end().ends_with("-4"), "{errors}");
    let another = Server::start(other.path(), &[]);
    let address = another.address.to_string();
    let (done, said, errors) = read(&address, &["--cursor", cursor]);
    assert!(!done && said.is_empty(), "{said}");
    assert!(errors.contains("and the reader was in log"), "{errors}");
    let (done, _, errors) = read(&address, &["--cursor", "120"]);
    assert!(!done && errors.contains("1a2b3c4d-1-120"), "{errors}");
}

#[test]
fn a_log_without_room_answers_pings_and_says_that_it_takes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start_without_room(directory.path(), &[]);
    let address = server.address.to_string();
    let ping = |more: &[&str]| {
        let mut arguments = vec!["ping", "--count", "1", "--server", &address];
        arguments.extend(more);
        run_command(&arguments)
    };
    let (done, said, errors) = ping(&["--writable"]);
    assert!(done && said.contains("is writable"), "{said}{errors}");
    let (done, _, errors) = run_command(&["append", "--server", &address, "too much"]);
    assert!(!done, "{errors}");
    assert!(ping(&[]).0);
    let (done, said, errors) = ping(&["--writable", "--within", "10000"]);
    assert!(!done && said.is_empty());
    assert!(
        errors.contains("is not writable: the log failed"),
        "{errors}"
    );
}

#[test]
fn a_server_that_shall_ends_with_its_own_code_when_its_log_fails() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start_without_room(directory.path(), &["--exit-on-failure"]);
    let address = server.address.to_string();
    let (done, _, errors) = run_command(&["append", "--server", &address, "too much"]);
    assert!(!done, "{errors}");
    assert_eq!(server.ended().code(), Some(3));
    assert!(server.end().contains("the log has failed for good"));
}

#[test]
fn a_reader_that_has_enough_is_no_failure() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let address = server.address.to_string();
    assert!(run_command(&["append", "--server", &address, "one"]).0);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = program(&["read", "--server", &address]);
    let read = command
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let output = read.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{errors}");
}

#[test]
fn the_bench_measures_both_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("made/bench");
    let arguments = [
        "bench",
        path.to_str().unwrap(),
        "--appenders",
        "20",
        "--rounds",
        "1",
    ];
    let mut all = arguments.to_vec();
    let json = directory.path().join("bench.json");
    all.extend(["--seconds", "0.1", "--json", json.to_str().unwrap()]);
    let (done, said, errors) = run_command(&all);
    assert!(done, "{errors}");
    let written: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(
        written["tables"][0]["rows"][1][0],
        json!({ "text": "txlog" })
    );
    assert!(
        said.contains("sync each") && said.contains("times the appends"),
        "{said}"
    );
    assert!(!directory.path().join("made").exists());
}
