//! Consumers on the command line: each record is printed at least once, whoever is killed when.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use crate::support::LIMIT;
use crate::support::program::{Server, run_command, wait};

fn append(server: &str, log: &str, records: impl Iterator<Item = u64>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_txlog"))
        .args(["append", "--server", server, "--log", log, "--create"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines: String = records.map(|number| format!("{number}\n")).collect();
    input.write_all(lines.as_bytes()).unwrap();
    drop(input);
    assert!(wait(&mut child).success());
}

/// Runs a command for the log `orders`: its output, if it succeeded.
fn done(server: &str, arguments: &[&str]) -> Result<String, String> {
    let mut all = arguments.to_vec();
    all.extend(["--server", server, "--log", "orders"]);
    match run_command(&all) {
        (true, output, _) => Ok(output),
        (false, _, error) => Err(error),
    }
}

/// The records that were printed, by their numbers.
fn numbers(output: &str) -> Vec<u64> {
    let number = |line: &str| line.split('\t').next().unwrap().parse().unwrap();
    output.lines().map(number).collect()
}

fn logs(directory: &tempfile::TempDir) -> Vec<&str> {
    let logs = directory.path().to_str().unwrap();
    vec!["--logs", logs, "--create-logs"]
}

#[test]
fn a_consumer_goes_on_behind_what_it_has_printed_also_when_the_server_was_killed() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start_with(&logs(&directory));
    let address = server.address.to_string();
    append(&address, "orders", 1..=9);
    let read = |address: &str, count: &str| {
        let read = ["read", "--consumer", "billing", "--count", count];
        numbers(&done(address, &read).unwrap())
    };
    assert_eq!(read(&address, "4"), [1, 2, 3, 4]);
    let would = done(&address, &["trim", "--before", "5", "--dry-run"]).unwrap();
    let all_stay = "no record would go, as files go whole, and the oldest has later ones, too";
    assert_eq!(would, format!("{all_stay}; the oldest would be 1\n"));
    server.kill();
    let server = Server::start_with(&logs(&directory));
    let address = server.address.to_string();
    assert_eq!(read(&address, "2"), [5, 6]);
    assert_eq!(read(&address, "100"), [7, 8, 9]);
    assert_eq!(read(&address, "100"), [0; 0]);
    let listed = done(&address, &["cursors"]).unwrap();
    let fields: Vec<&str> = listed.trim_end().split('\t').collect();
    assert_eq!((fields[0], fields[2]), ("billing", "0 records behind"));
    assert!(fields[1].ends_with("-10"), "{listed}");
    done(&address, &["cursors", "--set", "billing", "--to", "8"]).unwrap();
    assert_eq!(read(&address, "100"), [8, 9]);
    done(&address, &["cursors", "--remove", "billing"]).unwrap();
    assert_eq!(done(&address, &["cursors"]).unwrap(), "");
    assert_eq!(read(&address, "100"), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let error = done(&address, &["cursors", "--remove", "another"]).unwrap_err();
    assert!(error.contains("there is no cursor another"), "{error}");
    let error = done(&address, &["cursors", "--set", "billing", "--to", "99"]).unwrap_err();
    assert!(error.contains("99"), "{error}");
    let error = done(&address, &["read", "--consumer", "../a"]).unwrap_err();
    assert!(error.contains("no name for a cursor"), "{error}");
    let path = directory.path().join("orders");
    drop(server);
    let (verified, output, _) = run_command(&["verify", path.to_str().unwrap()]);
    assert!(verified && output.contains("named cursors: 1"), "{output}");
}

/// The log has lost records, and has another epoch since.
#[test]
fn a_consumer_hears_that_its_place_means_nothing_any_more_and_what_helps() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start_with(&logs(&directory));
    let address = server.address.to_string();
    append(&address, "orders", 1..=8);
    // A batch of its own, which is lost as a whole.
    append(&address, "orders", 9..=9);
    let read = ["read", "--consumer", "billing"];
    assert_eq!(numbers(&done(&address, &read).unwrap()).len(), 9);
    server.signal("TERM");
    assert!(server.ended().success());
    let path = directory.path().join("orders");
    let segment = path.join("00000000000000000001.seg");
    let bytes = fs::read(&segment).unwrap();
    let end = bytes.iter().rposition(|&byte| byte != 0).unwrap();
    fs::write(&segment, &bytes[..end]).unwrap();
    let (repaired, said, error) = run_command(&["repair", path.to_str().unwrap()]);
    assert!(
        repaired && said.contains("record 9 is lost"),
        "{said}{error}"
    );
    let server = Server::start_with(&logs(&directory));
    let address = server.address.to_string();
    let error = done(&address, &read).unwrap_err();
    assert!(error.contains("lost or replaced"), "{error}");
    assert!(
        error.contains("`txlog cursors --set billing --to oldest`"),
        "{error}"
    );
    let listed = done(&address, &["cursors"]).unwrap();
    assert!(listed.contains("of an earlier epoch"), "{listed}");
    done(&address, &["cursors", "--set", "billing", "--to", "end"]).unwrap();
    append(&address, "orders", 9..=10);
    assert_eq!(numbers(&done(&address, &read).unwrap()), [9, 10]);
}

#[test]
fn a_consumer_whose_records_are_gone_is_listed_as_such_and_hears_what_helps() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start_with(&[&logs(&directory)[..], &["--segment-bytes", "100"]].concat());
    let address = server.address.to_string();
    for number in 1..=4 {
        append(&address, "orders", number..=number);
    }
    done(&address, &["cursors", "--set", "billing", "--to", "1"]).unwrap();
    let trim = |options: &[&str]| done(&address, &[&["trim", "--before", "4"], options].concat());
    let error = trim(&[]).unwrap_err();
    assert!(error.contains("billing (at 1)"), "{error}");
    let said = trim(&["--force"]).unwrap();
    assert_eq!(said, "all from 1 to 3 went; the oldest is 4 now\n");
    let said = done(&address, &["cursors"]).unwrap();
    assert!(
        said.ends_with("\tat a record that is no longer kept; the oldest is 4\n"),
        "{said}"
    );
    let read = ["read", "--consumer", "billing"];
    let error = done(&address, &read).unwrap_err();
    assert!(
        error.contains("`txlog cursors --set billing --to oldest`"),
        "{error}"
    );
    let error = done(&address, &["cursors", "--set", "billing", "--to", "3"]).unwrap_err();
    assert!(error.contains("the oldest is 4"), "{error}");
    done(&address, &["cursors", "--set", "billing", "--to", "oldest"]).unwrap();
    assert_eq!(numbers(&done(&address, &read).unwrap()), [4]);
}

fn follower(address: &str) -> (Child, Receiver<u64>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_txlog"))
        .args(["read", "--follow", "--consumer", "billing"])
        .args(["--server", address, "--log", "orders"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let (sender, printed) = channel();
    thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            // The last line of one that was killed may be cut: then it was not printed.
            let number = line
                .split_once('\t')
                .and_then(|(number, _)| number.parse().ok());
            if number.is_none_or(|number| sender.send(number).is_err()) {
                break;
            }
        }
    });
    (child, printed)
}

/// Consumers and servers are killed in turns. All records are printed, each once or again, and
/// those that are printed by one consumer have no gaps.
#[test]
fn no_record_is_left_out_though_consumers_and_servers_are_killed() {
    const RECORDS: u64 = 3_000;
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start_with(&logs(&directory));
    append(&server.address.to_string(), "orders", 1..=RECORDS);
    let mut all = BTreeSet::new();
    for round in 1.. {
        let (mut child, printed) = follower(&server.address.to_string());
        let mut last = None;
        for number in 0..400 * round {
            if all.contains(&RECORDS) {
                break;
            }
            let read = printed.recv_timeout(LIMIT).expect("it reads on");
            assert!(last.is_none_or(|last| read == last + 1), "{last:?} {read}");
            assert!(number > 0 || read <= all.last().map_or(1, |last| last + 1));
            last = Some(read);
            all.insert(read);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // It may have printed more than was looked at.
        all.extend(printed);
        if all.contains(&RECORDS) {
            break;
        }
        if round % 2 == 0 {
            server.kill();
            server = Server::start_with(&logs(&directory));
        }
    }
    assert_eq!(all.len() as u64, RECORDS);
}

#[test]
fn read_begins_at_the_end_with_the_last_ones_or_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start_with(&logs(&directory));
    let address = server.address.to_string();
    append(&address, "orders", 1..=9);
    let read = |how: &[&str]| {
        let mut all = vec!["read"];
        all.extend(how);
        numbers(&done(&address, &all).unwrap())
    };
    assert_eq!(read(&["--tail", "3"]), [7, 8, 9]);
    assert_eq!(read(&["--tail", "100"]).len(), 9);
    assert_eq!(read(&["--tail", "0"]), [0; 0]);
    assert_eq!(read(&["--from-end"]), [0; 0]);
    assert_eq!(read(&["--since", "1d"]).len(), 9);
    assert_eq!(read(&["--since", "2026-01-01T00:00:00Z"]).len(), 9);
    assert_eq!(read(&["--since", "2999-01-01T00:00:00Z"]), [0; 0]);
    for wrong in [
        &["--since", "soon"][..],
        &["--tail", "3", "--from", "1"],
        &["--since", "1h", "--consumer", "a"],
    ] {
        let mut all = vec!["read"];
        all.extend(wrong);
        done(&address, &all).unwrap_err();
    }
}
