//! The commands that look after a log's directory, as users meet them.

use std::fs;
use std::path::Path;

use crate::support::memory::MemoryDisk;
use crate::support::program::{Server, run_command};
use crate::support::{check_numbered, fill, run};
use txlog::log::{self, LocalDisk, Log, LogConfig, Retention};
use txlog_client::frame::{Code, Produced};
use txlog_client::{Batch, Client};

const COMMANDS: [&str; 4] = ["backup", "restore", "trim", "repair"];

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs a command that succeeds, and returns its output.
fn done(arguments: &[&str]) -> String {
    let (done, said, errors) = run_command(arguments);
    assert!(done, "{arguments:?}: {errors}");
    said
}

/// Runs a command that fails with one line, and returns that.
fn fails(arguments: &[&str]) -> String {
    let (done, said, errors) = run_command(arguments);
    assert!(!done, "{arguments:?}: {said}");
    let line = errors.lines().last().unwrap_or_default().to_owned();
    assert!(line.starts_with("error: "), "{errors}");
    line
}

fn append(server: &Server, records: &[&str]) {
    let address = server.address.to_string();
    let mut arguments = vec!["append", "--server", &address];
    arguments.extend(records);
    done(&arguments);
}

fn read(server: &Server) -> String {
    done(&["read", "--server", &server.address.to_string()])
}

fn stop(mut server: Server) {
    server.signal("TERM");
    assert!(server.ended().success());
}

/// Small segments.
const OPTIONS: [&str; 2] = ["--segment-bytes", "100"];

#[test]
fn help_teaches_every_command() {
    let said = done(&["--help"]);
    for command in COMMANDS {
        assert!(said.contains(command), "{said}");
        let said = done(&[command, "--help"]);
        assert!(
            said.contains("Usage: txlog") && said.contains("Examples:"),
            "{said}"
        );
    }
}

#[test]
fn a_backup_of_a_live_server_is_restored() {
    let directory = tempfile::tempdir().unwrap();
    let [log, saved, again] = ["log", "saved", "again"].map(|name| directory.path().join(name));
    let server = Server::start(&log, &OPTIONS);
    append(&server, &["one", "two", "three"]);
    // All that was acknowledged before is in it.
    let said = done(&["backup", text(&log), text(&saved), "--wait", "60"]);
    assert!(
        // In how many files depends on which of them shared a batch.
        said.contains("has records 1 to 3, all whole, in "),
        "{said}"
    );
    append(&server, &["later"]);
    let said = done(&["verify", text(&log)]);
    assert!(said.contains("a server has this log"), "{said}");
    let said = done(&["verify", text(&saved)]);
    assert!(said.ends_with("whole in all: records 1 to 3\n"), "{said}");
    let said = fails(&["serve", "--dir", text(&saved), "--listen", "127.0.0.1:0"]);
    assert!(
        said.contains("is a backup") && said.contains("txlog restore"),
        "{said}"
    );
    let said = fails(&["restore", text(&log), text(&again)]);
    assert!(said.contains("make a backup of it"), "{said}");
    assert!(!again.exists());
    stop(server);
    let said = done(&["restore", text(&saved), text(&again)]);
    assert!(said.contains("has records 1 to 3"), "{said}");
    let server = Server::start(&again, &OPTIONS);
    append(&server, &["other"]);
    assert_eq!(read(&server), "1\tone\n2\ttwo\n3\tthree\n4\tother\n");
}

#[test]
fn a_stopped_log_is_trimmed() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let server = Server::start(&log, &["--segment-bytes", "100"]);
    append(&server, &["one", "two", "three", "four"]);
    // Beside a server, it says which command asks that one.
    let trim = ["trim", text(&log), "--before", "3"];
    for said in [fails(&trim), fails(&[&trim[..], &["--dry-run"]].concat())] {
        assert!(said.contains("is open by a server"), "{said}");
        let command = "`txlog trim --server ADDRESS --log NAME --before 3`";
        assert!(said.contains(command), "{said}");
    }
    stop(server);
    let would = done(&["trim", text(&log), "--before", "5", "--dry-run"]);
    assert_eq!(would, "all from 1 to 4 would go; the oldest would be 5\n");
    let said = done(&trim);
    // One batch may have had several of them, and stays whole.
    assert!(
        said.starts_with("it has record") && said.ends_with("to 4 now\n"),
        "{said}"
    );
    for dry_run in [&[][..], &["--dry-run"]] {
        let said = fails(&[&["trim", text(&log), "--before", "9"], dry_run].concat());
        assert!(said.contains("record 9 is beyond the log's end"), "{said}");
    }
    let said = done(&["trim", text(&log), "--before", "5"]);
    assert_eq!(said, "it has no records; the next is 5 now\n");
    let server = Server::start(&log, &OPTIONS);
    append(&server, &["five"]);
    assert_eq!(read(&server), "5\tfive\n");
}

#[test]
fn a_served_log_is_trimmed_by_its_server() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let server = Server::start(&log, &["--segment-bytes", "100"]);
    for record in ["one", "two", "three", "four"] {
        append(&server, &[record]);
    }
    let address = server.address.to_string();
    let trim = |before: &'static str| ["trim", "--server", &address, "--before", before];
    let would = done(&[&trim("3")[..], &["--dry-run"]].concat());
    assert_eq!(would, "all from 1 to 2 would go; the oldest would be 3\n");
    assert_eq!(done(&trim("1")), "no record went; the oldest is 1 now\n");
    let place = ["cursors", "--server", &address, "--set", "billing", "--to"];
    done(&[&place[..], &["2"]].concat());
    let said = fails(&trim("3"));
    assert!(said.contains("billing (at 2)"), "{said}");
    done(&[&place[..], &["3"]].concat());
    let said = done(&trim("3"));
    assert_eq!(said, "all from 1 to 2 went; the oldest is 3 now\n");
    assert_eq!(read(&server), "3\tthree\n4\tfour\n");
    let said = fails(&trim("9"));
    assert!(said.contains("record 9 is beyond the log's end"), "{said}");
    stop(server);
    // A consumer counts also where there is no server.
    for dry_run in [&[][..], &["--dry-run"]] {
        let said = fails(&[&["trim", text(&log), "--before", "5"], dry_run].concat());
        assert!(said.contains("billing (at 3)"), "{said}");
    }
    let said = done(&["trim", text(&log), "--before", "5", "--force"]);
    assert_eq!(said, "it has no records; the next is 5 now\n");
    // One of two things is meant.
    let both = ["trim", text(&log), "--server", &address, "--before", "5"];
    let (done, _, errors) = run_command(&both);
    assert!(!done && errors.contains("cannot be used with"), "{errors}");
}

#[test]
fn little_more_is_kept_than_the_limits_say_though_a_file_might_have_more() {
    let limits = [(40, 0), (0, 8_000)];
    for (records_max, bytes_max) in limits {
        run(async {
            let config = LogConfig {
                retention: Retention {
                    records_max,
                    bytes_max,
                    ..Retention::default()
                },
                ..LogConfig::default()
            };
            let disk = MemoryDisk::new(1);
            let (log, _) = Log::open(disk.clone(), config).await.unwrap();
            fill(&log, 200).await;
            log.maintain().await.unwrap();
            // One has about 130 bytes.
            let kept = check_numbered(&log).await;
            assert!(
                (40..=60).contains(&kept),
                "{records_max}, {bytes_max}: {kept}"
            );
            log.close().await.unwrap();
        });
    }
}

#[test]
fn a_log_that_lost_its_end_is_refused_until_it_is_repaired() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let server = Server::start(&log, &[]);
    // Each in a batch of its own: a batch is lost whole.
    for record in ["one", "two", "three"] {
        append(&server, &[record]);
    }
    stop(server);
    assert!(done(&["repair", text(&log)]).contains("nothing was changed"));
    let segment = log.join("00000000000000000001.seg");
    let bytes = fs::read(&segment).unwrap();
    // The head and the first record.
    let first = bytes.windows(3).position(|found| found == b"one").unwrap();
    fs::write(&segment, &bytes[..first + 3]).unwrap();
    let said = fails(&["serve", "--dir", text(&log), "--listen", "127.0.0.1:0"]);
    assert!(said.contains("records 2 to 3 are missing"), "{said}");
    assert!(said.contains("txlog repair"), "{said}");
    assert!(fails(&["verify", text(&log)]).contains("records 2 to 3 are missing"));
    let said = done(&["repair", text(&log)]);
    assert!(
        said.starts_with("records 2 to 3 are lost; their numbers are used again\n"),
        "{said}"
    );
    assert!(said.contains("the log has the epoch "), "{said}");
    let server = Server::start(&log, &[]);
    append(&server, &["another"]);
    assert_eq!(read(&server), "1\tone\n2\tanother\n");
    stop(server);
    // Damage: what is cut off is kept.
    let mut bytes = fs::read(&segment).unwrap();
    bytes[56 + 40] ^= 1;
    fs::write(&segment, &bytes).unwrap();
    assert!(fails(&["verify", text(&log)]).contains("txlog repair"));
    let said = done(&["repair", text(&log)]);
    let kept = "00000000000000000001.seg.56-1.cut";
    assert!(
        said.contains(&format!("what was cut off is in {kept}\n")),
        "{said}"
    );
    assert_eq!(fs::read(log.join(kept)).unwrap(), &bytes[56..]);
    assert!(done(&["verify", text(&log)]).contains("no records; the next is 1"));
}

/// Nobody is sent in a circle: what says that records are damaged also says how to go on.
#[test]
fn damage_before_the_last_file_is_said_with_where_reading_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let (log, copy) = (directory.path().join("log"), directory.path().join("copy"));
    let server = Server::start(&log, &OPTIONS);
    for number in 1..=8 {
        append(&server, &[&format!("record {number} {:.<80}", "")]);
    }
    stop(server);
    let mut files: Vec<_> = fs::read_dir(&log)
        .unwrap()
        .map(|it| it.unwrap().path())
        .collect();
    files.retain(|path| path.extension().is_some_and(|suffix| suffix == "seg"));
    files.sort();
    let first_of = |file: &Path| text(file.file_name().unwrap().as_ref())[..20].parse::<u64>();
    let (second, third) = (first_of(&files[1]).unwrap(), first_of(&files[2]).unwrap());
    let mut bytes = fs::read(&files[1]).unwrap();
    bytes[100] ^= 1;
    fs::write(&files[1], bytes).unwrap();
    let lost = match third - second {
        1 => format!("record {second} cannot be read"),
        _ => format!("records {second} to {} cannot be read", third - 1),
    };
    let ways = [
        lost,
        format!("--from {third}"),
        format!("txlog trim --before {third}"),
    ];
    let says_so = |said: String| {
        for way in &ways {
            assert!(said.contains(way), "{said}");
        }
        assert!(!said.contains("repair"), "{said}");
    };
    says_so(fails(&["verify", text(&log)]));
    says_so(fails(&["repair", text(&log)]));
    says_so(fails(&["backup", text(&log), text(&copy)]));
    let server = Server::start(&log, &OPTIONS);
    let address = server.address.to_string();
    let (damaged, whole) = (second.to_string(), third.to_string());
    let read = ["read", "--server", &address, "--from"];
    says_so(fails(&[&read[..], &[&damaged]].concat()));
    let behind = done(&[&read[..], &[&whole]].concat());
    assert_eq!(behind.lines().count() as u64, 9 - third);
    stop(server);
    done(&["trim", text(&log), "--before", &whole]);
    done(&["verify", text(&log)]);
    done(&["repair", text(&log)]);
    // Without its head no log is opened, so trimming is no way then.
    let fourth = first_of(&files[3]).unwrap();
    let mut bytes = fs::read(&files[2]).unwrap();
    bytes[20] ^= 1;
    fs::write(&files[2], bytes).unwrap();
    let way = format!(
        "move this file and all earlier ones away, and the log begins with record {fourth}"
    );
    assert!(fails(&["verify", text(&log)]).contains(&way));
    assert!(fails(&["repair", text(&log)]).contains(&way));
    fs::remove_file(&files[2]).unwrap();
    done(&["verify", text(&log)]);
    stop(Server::start(&log, &OPTIONS));
}

#[test]
fn what_cannot_be_done_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let [log, empty, file] = ["log", "empty", "file"].map(|name| directory.path().join(name));
    fs::create_dir(&empty).unwrap();
    fs::write(&file, "x").unwrap();
    let server = Server::start(&log, &[]);
    append(&server, &["one"]);
    let missing = directory.path().join("missing");
    let new = directory.path().join("new");
    let mistakes: [(&[&str], &str); 8] = [
        (
            &["backup", text(&missing), text(&new)],
            "see whether the path is right",
        ),
        (&["backup", text(&empty), text(&new)], "it holds no log"),
        (
            &["backup", text(&file), text(&new)],
            "a file is where a directory",
        ),
        (
            &["backup", text(&log), text(&file)],
            "a file is where a directory",
        ),
        (&["restore", text(&empty), text(&new)], "it holds no log"),
        (
            &["trim", text(&missing), "--before", "1"],
            "see whether the path is right",
        ),
        (&["trim", text(&empty), "--before", "1"], "it holds no log"),
        (&["repair", text(&empty)], "it holds no log"),
    ];
    for (arguments, says) in mistakes {
        let said = fails(arguments);
        assert!(said.contains(says), "{arguments:?}: {said}");
    }
    assert!(!missing.exists());
    done(&["backup", text(&log), text(&new.join("below"))]);
    let said = fails(&["backup", text(&log), text(&new.join("below"))]);
    assert!(said.contains("give an empty directory"), "{said}");
}

#[test]
fn a_server_whose_directory_is_moved_away_refuses_appends_and_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let mut server = Server::start(&log, &[]);
    append(&server, &["one"]);
    fs::rename(&log, directory.path().join("elsewhere")).unwrap();
    let address = server.address.to_string();
    let began = std::time::Instant::now();
    let said = loop {
        // It would wait for a server, but not for a log that has failed.
        let patient = ["append", "--give-up-after", "1000", "--server", &address];
        let (done, _, errors) = run_command(&[&patient[..], &["lost"]].concat());
        if !done {
            break errors;
        }
        assert!(
            began.elapsed() < crate::support::LIMIT,
            "it still takes records"
        );
    };
    assert!(
        said.contains("was removed or replaced while the log was open"),
        "{said}"
    );
    assert!(
        server.end().contains("was removed or replaced"),
        "the server says it, too"
    );
}

#[test]
fn a_server_that_shall_end_says_by_its_code_that_its_directory_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let mut server = Server::start(&log, &["--exit-on-failure"]);
    append(&server, &["one"]);
    fs::rename(&log, directory.path().join("elsewhere")).unwrap();
    assert_eq!(server.ended().code(), Some(4));
    assert!(
        server
            .end()
            .contains("a start would begin another one there")
    );
    assert!(!log.exists());
}

#[test]
fn the_server_knows_as_many_producers_as_it_was_told_and_verify_their_files() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let server = Server::start(&log, &["--segment-bytes", "100", "--producers-max", "2"]);
    let address = server.address;
    run(async {
        let client = Client::connect(address).await.unwrap();
        let send = async |producer, number| {
            let producer = Some(Produced { producer, number });
            let batch = Batch {
                producer,
                ..Batch::new(["of a producer"])
            };
            client.submit_batch(batch).await.unwrap().await
        };
        for producer in [1, 2, 3] {
            send(producer, 0).await.unwrap();
        }
        send(3, 1).await.unwrap();
        let forgotten = send(1, 1).await.unwrap_err();
        assert_eq!(forgotten.code(), Some(Code::ProducerUnknown));
    });
    stop(server);
    let names: Vec<_> = ["PRODUCERS-0", "PRODUCERS-1"]
        .map(|name| log.join(name))
        .into();
    let there: Vec<_> = names.into_iter().filter(|name| name.exists()).collect();
    assert!(!there.is_empty());
    let said = done(&["verify", text(&log)]);
    assert!(!said.contains("PRODUCERS"), "{said}");
    let mut bytes = fs::read(&there[0]).unwrap();
    bytes[20] ^= 1;
    fs::write(&there[0], bytes).unwrap();
    let said = done(&["verify", text(&log)]);
    let name = there[0].file_name().unwrap().to_str().unwrap();
    assert!(said.contains(&format!("{name} is damaged")), "{said}");
    assert!(said.contains("whole in all"), "{said}");
    for wrong in ["0", "100000"] {
        let arguments = ["serve", "--dir", text(&log), "--producers-max", wrong];
        let (done, _, errors) = run_command(&arguments);
        assert!(!done && errors.contains("--producers-max"), "{errors}");
    }
}

/// More producers than a server knows by default.
#[test]
fn commands_that_work_on_a_log_forget_none_of_its_producers() {
    const PRODUCERS: u128 = 1_100;
    let directory = tempfile::tempdir().unwrap();
    let [log, saved, again] = ["log", "saved", "again"].map(|name| directory.path().join(name));
    let config = LogConfig {
        producers_max: PRODUCERS as usize,
        ..LogConfig::default()
    };
    let open = async |path: &Path| {
        let disk = LocalDisk::hold_existing(path).await.unwrap();
        Log::open(disk, config.clone()).await.unwrap().0
    };
    let batch_of = |producer| {
        let number = 0;
        let batch = ["of a producer"].into_iter().collect();
        log::Batch::new(batch).of(Some(Produced { producer, number }))
    };
    run(async {
        drop(LocalDisk::hold(&log).await.unwrap());
        let log = open(&log).await;
        let mut pending = Vec::new();
        for producer in 0..PRODUCERS {
            pending.push(log.submit_batch(batch_of(producer)).await.unwrap());
        }
        for stored in pending {
            assert!(!stored.await.unwrap().repeated);
        }
        log.close().await.unwrap();
    });
    assert!(done(&["repair", text(&log)]).contains("nothing was changed"));
    let next = PRODUCERS + 1;
    let said = done(&["trim", text(&log), "--before", &next.to_string()]);
    assert_eq!(said, format!("it has no records; the next is {next} now\n"));
    done(&["backup", text(&log), text(&saved)]);
    done(&["restore", text(&saved), text(&again)]);
    for path in [&log, &again] {
        run(async {
            let log = open(path).await;
            for producer in 0..PRODUCERS {
                let pending = log.submit_batch(batch_of(producer)).await.unwrap();
                let stored = pending.await.unwrap();
                assert!(stored.repeated, "{producer} is forgotten in {path:?}");
            }
            log.close().await.unwrap();
        });
    }
}
