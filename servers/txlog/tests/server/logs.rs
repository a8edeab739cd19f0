//! Several logs in one server: who gets which, and what one of them costs the others.

use std::fs;
use std::time::Duration;

use crate::support::logs::{Disks, connect, creating, directories, hold, serving_logs};
use crate::support::memory::append_that_fails;
use crate::support::served::{Raw, serving};
use crate::support::{LIMIT, run};
use evenkeel::task::JoinSet;
use evenkeel::time::{sleep, timeout};
use txlog::log::{LocalDisk, verify};
use txlog::server::ServerConfig;
use txlog_client::frame::{Access, Code, Request, VERSION};
use txlog_client::{Client, ClientError, Connect};

/// A limit that an append in memory keeps, on a busy machine as well.
const AMPLE: Duration = Duration::from_secs(30);

fn code(result: Result<Client, ClientError>) -> Code {
    let error = result.expect_err("it is refused");
    error.code().unwrap_or_else(|| panic!("{error}"))
}

async fn payloads(client: &Client) -> Vec<String> {
    let (records, _) = client.read(0, Duration::ZERO).await.unwrap();
    let text = |record: txlog_client::Record| String::from_utf8(record.payload.to_vec()).unwrap();
    records.into_iter().map(text).collect()
}

#[test]
fn each_name_is_a_log_of_its_own_which_outlives_the_server() {
    let directory = tempfile::tempdir().unwrap();
    for round in 1..=2 {
        run(async {
            let source = directories(directory.path(), 9).await;
            let ended = serving_logs(source, creating(), async |address| {
                let (one, other) = (
                    connect(address, "one").await,
                    connect(address, "other").await,
                );
                let (one, other) = (one.unwrap(), other.unwrap());
                assert_ne!(one.info().identity, other.info().identity);
                assert_eq!(one.info().next, 2 * round - 1);
                let numbers = [
                    one.append(format!("{round} a")).await.unwrap(),
                    one.append(format!("{round} b")).await.unwrap(),
                    other.append(format!("{round} c")).await.unwrap(),
                ];
                assert_eq!(numbers, [2 * round - 1, 2 * round, round]);
                let again = connect(address, "one").await.unwrap();
                assert_eq!(again.info().identity, one.info().identity);
                assert_eq!(payloads(&again).await.len() as u64, 2 * round);
                assert_eq!(payloads(&other).await.first().unwrap(), "1 c");
            });
            ended.await.unwrap();
            // They were closed: the marks cover their last records as well.
            for name in ["one", "other"] {
                let disk = LocalDisk::borrow(directory.path().join(name));
                let found = verify(&disk, |_, _, _| ()).await.unwrap();
                assert_eq!(found.durable, found.next, "{name}");
            }
        });
    }
    assert!(directory.path().join("one/MARK").is_file());
}

#[test]
fn a_log_is_created_if_the_client_asks_the_server_allows_and_there_is_room() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let source = directories(directory.path(), 2).await;
        let ended = serving_logs(source, creating(), async |address| {
            let asked = Connect::new().log("new").connect(address).await;
            assert_eq!(code(asked), Code::NoSuchLog);
            connect(address, "new").await.unwrap();
            Connect::new().log("new").connect(address).await.unwrap();
            connect(address, "second").await.unwrap();
            assert_eq!(code(connect(address, "third").await), Code::TooMany);
            assert!(!directory.path().join("third").exists());
        });
        ended.await.unwrap();
        let source = directories(directory.path(), 9).await;
        let ended = serving_logs(source, ServerConfig::default(), async |address| {
            assert_eq!(code(connect(address, "third").await), Code::NoSuchLog);
            assert!(!directory.path().join("third").exists());
            // Whoever may write there may create one as well.
            fs::create_dir(directory.path().join("third")).unwrap();
            let third = Connect::new().log("third").connect(address).await.unwrap();
            assert_eq!(third.append("first").await.unwrap(), 1);
        });
        ended.await.unwrap();
    });
}

/// So that a probe and a list need no name.
#[test]
fn who_names_no_log_may_ask_about_the_server_where_all_logs_have_names() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let source = directories(directory.path(), 2).await;
        let ended = serving_logs(source, creating(), async |address| {
            connect(address, "orders").await.unwrap();
            let client = Client::connect(address).await.unwrap();
            client.ping().await.unwrap();
            let listed = client.logs().await.unwrap();
            assert_eq!((listed.len(), &*listed[0].name), (1, "orders"));
            let health = client.health(LIMIT).await.unwrap();
            assert!(
                health.writable && health.text.contains("--log NAME"),
                "{health:?}"
            );
            let refused = [
                client.append("to none").await.map(drop),
                client.read(0, Duration::ZERO).await.map(drop),
                client.seek(std::time::UNIX_EPOCH).await.map(drop),
                client.cursors().await.map(drop),
                client.cursor("billing").await.map(drop),
            ];
            for refused in refused {
                let error = refused.unwrap_err();
                assert!(
                    matches!(
                        error,
                        ClientError::Refused {
                            code: Code::NoSuchLog,
                            ..
                        }
                    ),
                    "{error:?}"
                );
                assert!(error.to_string().contains("--log NAME"), "{error}");
            }
            // One that is larger than what such a connection may send ends it.
            let large = client.append(vec![0; 100_000]).await.unwrap_err();
            assert_eq!(large.code(), Some(Code::NoSuchLog), "{large:?}");
        });
        ended.await.unwrap();
    });
}

#[test]
fn a_health_check_without_a_log_hears_of_one_that_has_failed() {
    run(async {
        let disks = Disks::default();
        let ended = serving_logs(disks.clone(), creating(), async |address| {
            let orders = connect(address, "orders").await.unwrap();
            let client = Client::connect(address).await.unwrap();
            assert!(client.health(LIMIT).await.unwrap().writable);
            append_that_fails(&orders, &disks.disk("orders"), 5).await;
            let health = client.health(LIMIT).await.unwrap();
            assert!(!health.writable, "{health:?}");
            assert!(health.text.starts_with("the log orders: "), "{health:?}");
        });
        // Its accepted records could not be made durable.
        let _ = ended.await;
    });
}

#[test]
fn a_server_of_one_log_has_none_with_a_name() {
    serving(creating(), |address, _| async move {
        assert_eq!(code(connect(address, "orders").await), Code::NoSuchLog);
    });
}

/// Where a server keeps its logs is nothing that clients need to know.
#[test]
fn clients_are_told_no_paths() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let log = |name: &str| directory.path().join(name);
        for name in ["held", "foreign", "damaged"] {
            fs::create_dir(log(name)).unwrap();
        }
        let _held = hold(&log("held")).await;
        fs::write(log("foreign").join("notes.txt"), "mine").unwrap();
        fs::write(log("damaged").join("00000000000000000007.seg"), [7; 99]).unwrap();
        let source = directories(directory.path(), 9).await;
        let ended = serving_logs(source, creating(), async |address| {
            for (name, why) in [
                ("held", "another server has this directory"),
                ("foreign", "notes.txt is no file of the log"),
                ("damaged", "00000000000000000007.seg is damaged at byte 0"),
            ] {
                let error = connect(address, name).await.unwrap_err().to_string();
                let path = directory.path().to_str().unwrap();
                assert!(error.contains(why) && error.contains(name), "{error}");
                assert!(!error.contains(path), "{error}");
            }
        });
        ended.await.unwrap();
    });
}

#[test]
fn names_lead_nowhere_else() {
    run(async {
        let above = tempfile::tempdir().unwrap();
        let logs = above.path().join("logs");
        fs::create_dir(&logs).unwrap();
        fs::create_dir(above.path().join("secret")).unwrap();
        fs::write(logs.join("file"), "not a log").unwrap();
        let source = directories(&logs, 9).await;
        let ended = serving_logs(source, creating(), async |address| {
            for name in [
                "..",
                ".",
                "../secret",
                "/etc",
                "a/../../secret",
                "a/b",
                "\0",
                "a\0b",
                ".hidden",
                "-x",
                "a b",
                "ä",
                "..\\secret",
                "%2e%2e",
                "~",
                "a\n",
                "lost+found",
                "*",
            ] {
                let mut raw = Raw::connect(address).await;
                let access = Access {
                    log: name.to_owned(),
                    create: true,
                    ..Access::default()
                };
                raw.ask(&Request::Hello {
                    min: VERSION,
                    max: VERSION,
                    access: Some(access),
                })
                .await;
                assert_eq!(raw.faulted().await, Code::NoSuchLog, "{name:?}");
            }
            let error = connect(address, "file").await.unwrap_err();
            assert!(error.to_string().contains("a file is where"), "{error}");
        });
        ended.await.unwrap();
        let names = |path| fs::read_dir(path).unwrap().count();
        assert_eq!(
            (names(above.path()), names(&logs)),
            (2, 1),
            "nothing was made"
        );
        assert_eq!(names(&above.path().join("secret")), 0);
    });
}

#[test]
fn a_log_stays_open_as_long_as_a_connection_has_it_and_gives_way_then() {
    run(async {
        let source = Disks::default();
        let config = ServerConfig {
            open_logs_max: 2,
            ..creating()
        };
        let ended = serving_logs(source, config, async |address| {
            let one = connect(address, "one").await.unwrap();
            let two = connect(address, "two").await.unwrap();
            let error = connect(address, "three").await.unwrap_err();
            assert_eq!(error.code(), Some(Code::TooMany));
            assert!(error.to_string().contains("--open-logs-max"), "{error}");
            for client in [&one, &two] {
                assert_eq!(client.append("still open").await.unwrap(), 1);
            }
            drop(one);
            // As soon as the server has noticed.
            let three = async {
                loop {
                    match connect(address, "three").await {
                        Ok(three) => break three,
                        Err(error) => assert_eq!(error.code(), Some(Code::TooMany), "{error}"),
                    }
                    sleep(Duration::from_millis(1)).await;
                }
            };
            let three = timeout(LIMIT, three).await.expect("one gives way");
            assert_eq!(three.append("new").await.unwrap(), 1);
            assert_eq!(two.append("still open").await.unwrap(), 2);
            drop(three);
            let again = async {
                loop {
                    if let Ok(one) = connect(address, "one").await {
                        break one;
                    }
                    sleep(Duration::from_millis(1)).await;
                }
            };
            let again = timeout(LIMIT, again).await.expect("it is opened again");
            assert_eq!(payloads(&again).await, ["still open"]);
        });
        ended.await.unwrap();
    });
}

/// Whether a log is closed is seen by its directory, which others can lock then.
#[test]
fn a_log_that_nobody_has_is_closed_and_opened_again() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let config = ServerConfig {
            maintain_every: Duration::from_millis(5),
            log_idle_max: Duration::from_millis(20),
            ..creating()
        };
        let source = directories(directory.path(), 9).await;
        let ended = serving_logs(source, config, async |address| {
            for round in 1..=3 {
                let client = connect(address, "idle").await.unwrap();
                sleep(Duration::from_millis(60)).await;
                assert_eq!(
                    client.append("kept").await.unwrap(),
                    round,
                    "it is not idle"
                );
                drop(client);
                let closed = async {
                    loop {
                        let path = directory.path().join("idle");
                        let Ok(held) = LocalDisk::hold_existing(path).await else {
                            continue;
                        };
                        break held;
                    }
                };
                drop(timeout(LIMIT, closed).await.expect("it is closed"));
            }
        });
        ended.await.unwrap();
    });
}

#[test]
fn a_log_that_failed_leaves_the_others_serving_and_is_mended_by_its_next_client() {
    run(async {
        let source = Disks::default();
        let disks = source.clone();
        let config = ServerConfig {
            maintain_every: Duration::from_millis(5),
            ..creating()
        };
        let ended = serving_logs(source, config, async |address| {
            let (bad, good) = (
                connect(address, "bad").await,
                connect(address, "good").await,
            );
            let (bad, good) = (bad.unwrap(), good.unwrap());
            bad.append("durable").await.unwrap();
            let (error, stored) = append_that_fails(&bad, &disks.disk("bad"), 28).await;
            assert_eq!(error.code(), Some(Code::LogFailed), "{error}");
            assert!(!bad.health(AMPLE).await.unwrap().writable);
            let health = good.health(AMPLE).await.unwrap();
            assert!(health.writable && health.took.is_none(), "{health:?}");
            assert_eq!(good.append("taken").await.unwrap(), 1);
            assert!(good.health(AMPLE).await.unwrap().writable);
            drop(bad);
            let mended = async {
                loop {
                    let client = connect(address, "bad").await.unwrap();
                    if let Ok(number) = client.append("again").await {
                        break number;
                    }
                    drop(client);
                    sleep(Duration::from_millis(10)).await;
                }
            };
            // The one that was lost may have been written.
            let number = timeout(LIMIT, mended).await.expect("it is opened again");
            let durable = 1 + stored as u64;
            assert!((1..=2).contains(&(number - durable)), "{number}");
        });
        ended.await.unwrap();
    });
}

#[test]
fn logs_that_do_not_open_hold_up_nobody_else() {
    run(async {
        let source = Disks::default();
        let hung = source.hung.clone();
        hung.send_replace(true);
        let config = ServerConfig {
            stall_max: Duration::from_secs(1),
            close_max: Duration::from_millis(300),
            ..creating()
        };
        let ended = serving_logs(source, config, async |address| {
            let mut clients = JoinSet::new();
            // More than are opened at a time.
            for number in 0..9 {
                clients.spawn(async move { connect(address, &format!("hung-{number}")).await });
            }
            while let Some(refused) = clients.join_next().await {
                let error = refused.unwrap().unwrap_err();
                assert_eq!(error.code(), Some(Code::Busy), "{error}");
            }
            let well = async {
                loop {
                    match connect(address, "well").await {
                        Ok(client) => break client,
                        Err(error) => assert_eq!(error.code(), Some(Code::Busy), "{error}"),
                    }
                }
            };
            let well = timeout(LIMIT, well).await.expect("it is opened");
            assert_eq!(well.append("taken").await.unwrap(), 1);
            hung.send_replace(false);
            let late = async { while connect(address, "hung-3").await.is_err() {} };
            timeout(LIMIT, late).await.expect("it opens at last");
            hung.send_replace(true);
        });
        ended.await.unwrap();
    });
}

#[test]
fn a_log_that_does_not_open_delays_the_end_only_so_long() {
    run(async {
        let source = Disks::default();
        source.hung.send_replace(true);
        let config = ServerConfig {
            stall_max: Duration::from_secs(1),
            close_max: Duration::from_millis(50),
            ..creating()
        };
        let ended = serving_logs(source, config, async |address| {
            let well = connect(address, "well").await.unwrap();
            well.append("durable").await.unwrap();
            assert_eq!(code(connect(address, "hung").await), Code::Busy);
        });
        let ended = timeout(LIMIT, ended).await.expect("it ends");
        assert_eq!(ended.unwrap_err().code, Code::LogFailed);
    });
}

#[test]
fn a_log_whose_directory_was_removed_is_no_log_any_more_and_the_others_are() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let source = directories(directory.path(), 9).await;
        let config = ServerConfig {
            maintain_every: Duration::from_millis(5),
            ..creating()
        };
        let ended = serving_logs(source, config, async |address| {
            let gone = connect(address, "gone").await.unwrap();
            let here = connect(address, "here").await.unwrap();
            gone.append("one").await.unwrap();
            fs::remove_dir_all(directory.path().join("gone")).unwrap();
            let refused = async {
                loop {
                    if let Err(error) = gone.append("more").await {
                        break error;
                    }
                }
            };
            let error = timeout(LIMIT, refused).await.expect("it is noticed");
            assert!(error.code().is_some_and(Code::is_of_failed_log), "{error}");
            assert_eq!(here.append("one").await.unwrap(), 1);
            drop(gone);
            let asked = async {
                loop {
                    let asked = Connect::new().log("gone").connect(address).await;
                    if let Err(error) = asked {
                        break error;
                    }
                    sleep(Duration::from_millis(10)).await;
                }
            };
            let error = timeout(LIMIT, asked).await.expect("it is closed");
            assert_eq!(error.code(), Some(Code::NoSuchLog), "{error}");
        });
        ended.await.unwrap();
    });
}

#[test]
fn a_log_that_another_server_has_is_refused() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("taken")).unwrap();
        let held = hold(&directory.path().join("taken")).await;
        let source = directories(directory.path(), 9).await;
        let ended = serving_logs(source, creating(), async |address| {
            let error = connect(address, "taken").await.unwrap_err();
            assert!(error.to_string().contains("another server"), "{error}");
            drop(held);
            connect(address, "taken").await.unwrap();
        });
        ended.await.unwrap();
    });
}

#[test]
fn all_logs_are_listed_page_by_page_open_or_not() {
    const COUNT: u64 = 600;
    run(async {
        let directory = tempfile::tempdir().unwrap();
        for number in 0..COUNT {
            fs::create_dir(directory.path().join(format!("log-{number:03}"))).unwrap();
        }
        fs::write(directory.path().join("txlog.toml"), "").unwrap();
        let config = ServerConfig {
            open_logs_max: 1,
            ..creating()
        };
        let source = directories(directory.path(), 9).await;
        let ended = serving_logs(source, config, async |address| {
            let closed = connect(address, "log-007").await.unwrap();
            let of = closed.info().identity.unwrap();
            closed.append("one").await.unwrap();
            drop(closed);
            let client = async {
                loop {
                    if let Ok(client) = connect(address, "log-300").await {
                        break client;
                    }
                }
            };
            let client = timeout(LIMIT, client).await.unwrap();
            let logs = client.logs().await.unwrap();
            assert_eq!(logs.len() as u64, COUNT);
            assert!(logs.is_sorted_by_key(|log| &log.name));
            let open = logs.iter().filter(|log| log.is_open);
            let open: Vec<&str> = open.map(|log| log.name.as_str()).collect();
            assert_eq!(open, ["log-300"]);
            let bounds = logs[7].bounds.unwrap();
            assert_eq!((bounds.first, bounds.next, bounds.of), (1, 2, of));
            assert_eq!(logs[8].bounds, None, "it is not known before it is opened");
        });
        ended.await.unwrap();
    });
}

#[test]
fn a_log_has_the_limits_that_the_settings_say_now() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let settings = directory.path().join("txlog.toml");
        fs::write(&settings, "[logs.small]\nrecord_bytes_max = 10").unwrap();
        let source = directories(directory.path(), 9).await;
        let config = ServerConfig {
            open_logs_max: 1,
            ..creating()
        };
        let ended = serving_logs(source, config, async |address| {
            let bytes_max = async |log: &'static str| {
                let client = async {
                    loop {
                        if let Ok(client) = connect(address, log).await {
                            break client;
                        }
                    }
                };
                let client = timeout(LIMIT, client).await.unwrap();
                client.info().record_bytes_max
            };
            assert_eq!(bytes_max("small").await, 10);
            assert_eq!(bytes_max("usual").await, 1 << 20);
            fs::write(&settings, "[logs.small]\nrecord_bytes_max = 20").unwrap();
            assert_eq!(bytes_max("small").await, 20);
            bytes_max("usual").await;
            fs::write(&settings, "[logs.small]\nrecord_bytes = 30").unwrap();
            assert_eq!(bytes_max("small").await, 20, "as they were before");
        });
        ended.await.unwrap();
    });
}
