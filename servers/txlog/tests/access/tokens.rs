//! What a token allows, and what is learnt without one.

use std::time::Duration;

use crate::support::memory::MemoryDisk;
use crate::support::secured::{TokenFile, hello_with, secret, serving_secured};
use crate::support::served::{Raw, append};
use crate::support::{LIMIT, run, small};
use bytes::Bytes;
use evenkeel::time::{sleep, timeout};
use txlog::access::Security;
use txlog::log::Log;
use txlog::server::{BindError, Server, ServerConfig};
use txlog_client::frame::{Code, CursorChange, Request, Response};
use txlog_client::{Client, ClientError, Connect, Trim};

fn batch(id: u64) -> Request {
    Request::Batch {
        id,
        expected: None,
        producer: None,
        not_before: None,
        records: ["of a batch"].iter().collect(),
    }
}

fn read(id: u64) -> Request {
    Request::Read {
        id,
        from: 0,
        records_max: 10,
        bytes_max: 1_000,
        wait_ms: 0,
        of: None,
    }
}

/// Each sort of request, with the permission that it needs.
fn requests() -> [(Request, &'static str); 8] {
    let name = "reader".to_owned();
    let change = CursorChange::Keep;
    [
        (append(1, "one"), "append"),
        (batch(2), "append"),
        (read(3), "read"),
        (Request::Seek { id: 4, time_ms: 0 }, "read"),
        (
            Request::Cursor {
                id: 5,
                name,
                change,
            },
            "read",
        ),
        (
            Request::Health {
                id: 6,
                within_ms: 1_000,
            },
            "any",
        ),
        (Request::Ping { id: 7 }, "none"),
        // Nothing goes, as the number of no record is below it.
        (
            Request::Trim {
                id: 8,
                trim: Trim::before(0),
            },
            "admin",
        ),
    ]
}

/// Whether this is a refusal for want of a permission.
fn is_not_allowed(answer: &Response) -> bool {
    let (Response::Refused { code, text, .. } | Response::RefusedAt { code, text, .. }) = answer
    else {
        return false;
    };
    assert!(
        *code != Code::NotAllowed || text.contains("token"),
        "{text}"
    );
    *code == Code::NotAllowed
}

#[test]
fn each_request_needs_its_permission_and_pings_need_none() {
    let tokens = TokenFile::new(&[
        ("writer", "append", &[]),
        ("reader", "read", &["."]),
        ("keeper", "admin", &[]),
        ("all", "append,read,admin", &[]),
        ("elsewhere", "append,read,admin", &["orders"]),
    ]);
    let allowed = [
        ("writer", vec!["append", "any", "none"]),
        ("reader", vec!["read", "any", "none"]),
        ("keeper", vec!["admin", "any", "none"]),
        ("all", vec!["append", "read", "admin", "any", "none"]),
        ("elsewhere", vec!["none"]),
        ("", vec!["none"]),
    ];
    let config = ServerConfig::default();
    serving_secured(config, tokens.security(), async |address, _| {
        for (name, allowed) in allowed {
            let token = match name {
                "" => Bytes::new(),
                name => secret(name),
            };
            // First on an idle connection, and then on one that has worked if it may.
            let (mut same, _) = Raw::logged_in(address, token.clone()).await;
            for (request, needed) in requests() {
                let (mut fresh, _) = Raw::logged_in(address, token.clone()).await;
                for raw in [&mut fresh, &mut same] {
                    raw.ask(&request).await;
                    let answer = raw.answer().await.unwrap();
                    let refused = is_not_allowed(&answer);
                    assert_eq!(
                        refused,
                        !allowed.contains(&needed),
                        "{name}: {request:?}, {answer:?}"
                    );
                }
            }
        }
    });
}

#[test]
fn a_token_that_nobody_has_is_refused_and_nothing_is_learnt_without_one() {
    let tokens = TokenFile::new(&[("one", "append,read", &[])]);
    let config = ServerConfig::default();
    serving_secured(config, tokens.security(), async |address, _| {
        let client = Connect::new()
            .token(secret("one"))
            .connect(address)
            .await
            .unwrap();
        for _ in 0..3 {
            client.append("secret").await.unwrap();
        }
        let right = secret("one");
        for wrong in [
            right.slice(1..),
            right.slice(..right.len() - 1),
            Bytes::from([&right[..], b"\n"].concat()),
            Bytes::from_static(b"secret-two"),
            Bytes::from(vec![0; 256]),
        ] {
            let mut raw = Raw::connect(address).await;
            raw.ask(&hello_with("", wrong)).await;
            assert_eq!(raw.faulted().await, Code::NotAllowed);
        }
        // Which logs there are is not learnt, either.
        for log in ["", "orders", "../x"] {
            let mut raw = Raw::connect(address).await;
            raw.ask(&hello_with(log, Bytes::new())).await;
            let Some(Response::Welcome {
                first, next, of, ..
            }) = raw.answer().await
            else {
                panic!("no welcome")
            };
            let of = of.unwrap();
            assert_eq!((first, next, of.log, of.epoch), (0, 0, 0, 0), "{log}");
        }
        let (_, welcome) = Raw::logged_in(address, right).await;
        assert!(
            matches!(
                welcome,
                Response::Welcome {
                    first: 1,
                    next: 4,
                    ..
                }
            ),
            "{welcome:?}"
        );
        let stranger = Client::connect(address).await.unwrap();
        let error = stranger.append("x").await.unwrap_err();
        assert_eq!(error.code(), Some(Code::NotAllowed));
        assert!(error.to_string().contains("--token-file"), "{error}");
    });
}

#[test]
fn who_may_not_append_cannot_hold_the_memory_of_appends() {
    let tokens = TokenFile::new(&[("reader", "read", &[]), ("writer", "append", &[])]);
    let config = ServerConfig {
        stall_max: Duration::from_secs(600),
        ..ServerConfig::default()
    };
    serving_secured(config, tokens.security(), async |address, _| {
        for token in [Bytes::new(), secret("reader")] {
            let (mut raw, _) = Raw::logged_in(address, token).await;
            // A frame of which nothing comes but its length.
            raw.send(&500_000_u32.to_le_bytes()).await;
            assert_eq!(raw.faulted().await, Code::NotAllowed);
        }
        let (mut raw, _) = Raw::logged_in(address, secret("writer")).await;
        raw.send(&500_000_u32.to_le_bytes()).await;
        let answer = timeout(Duration::from_millis(100), raw.answer()).await;
        assert!(answer.is_err(), "{answer:?}");
    });
}

#[test]
fn strangers_leave_when_places_are_short() {
    let tokens = TokenFile::new(&[("one", "append", &[])]);
    let config = ServerConfig {
        connections_max: 4,
        reserve_max: 2,
        ..ServerConfig::default()
    };
    serving_secured(config, tokens.security(), async |address, _| {
        let mut strangers = Vec::new();
        for id in 0..40 {
            let (mut raw, _) = Raw::logged_in(address, Bytes::new()).await;
            raw.ask(&Request::Ping { id }).await;
            assert_eq!(raw.answer().await, Some(Response::Pong { id }));
            strangers.push(raw);
        }
        let works = async {
            loop {
                let connect = Connect::new().token(secret("one"));
                match connect.connect(address).await {
                    Ok(client) => match client.append("there is a place").await {
                        Ok(sequence) => break sequence,
                        Err(error) => assert_eq!(error.code(), Some(Code::TooManyConnections)),
                    },
                    Err(error) => panic!("{error}"),
                }
                sleep(Duration::from_millis(1)).await;
            }
        };
        assert_eq!(timeout(LIMIT / 2, works).await.expect("a place"), 1);
    });
}

async fn becomes(raw: &mut Raw, code: Code) {
    assert_eq!(raw.faulted().await, code);
}

#[test]
fn tokens_that_are_read_again_hold_from_then_on_and_wrong_ones_do_not() {
    let tokens = TokenFile::new(&[
        ("stays", "append", &[]),
        ("goes", "append", &[]),
        ("changes", "append,read", &[]),
    ]);
    let config = ServerConfig::default();
    serving_secured(config, tokens.security(), async |address, reload| {
        let (mut stays, _) = Raw::logged_in(address, secret("stays")).await;
        let (mut idle, _) = Raw::logged_in(address, secret("goes")).await;
        let (mut works, _) = Raw::logged_in(address, secret("goes")).await;
        works.ask(&append(1, "work")).await;
        works.answer().await.unwrap();
        let (mut waits, _) = Raw::logged_in(address, secret("changes")).await;
        let waiting = Request::Read {
            id: 1,
            from: 2,
            records_max: 1,
            bytes_max: 1,
            wait_ms: 60_000,
            of: None,
        };
        waits.ask(&waiting).await;
        // A file that is wrong changes nothing.
        tokens.write("stays append");
        reload.request();
        sleep(Duration::from_millis(100)).await;
        for raw in [&mut stays, &mut idle, &mut works] {
            raw.ask(&append(2, "still")).await;
            assert!(matches!(
                raw.answer().await,
                Some(Response::Appended { .. })
            ));
        }
        let early = waits.answer().await;
        assert!(matches!(early, Some(Response::Records { .. })), "{early:?}");
        waits.ask(&Request::Ping { id: 9 }).await;
        waits.answer().await.unwrap();
        tokens.set(&[
            ("stays", "append", &[]),
            ("changes", "read", &[]),
            ("comes", "append", &[]),
        ]);
        reload.request();
        becomes(&mut idle, Code::NotAllowed).await;
        becomes(&mut works, Code::NotAllowed).await;
        becomes(&mut waits, Code::NotAllowed).await;
        stays.ask(&append(3, "stays")).await;
        assert!(matches!(
            stays.answer().await,
            Some(Response::Appended { .. })
        ));
        let mut again = Raw::connect(address).await;
        again.ask(&hello_with("", secret("goes"))).await;
        assert_eq!(again.faulted().await, Code::NotAllowed);
        let (mut comes, _) = Raw::logged_in(address, secret("comes")).await;
        comes.ask(&append(4, "comes")).await;
        assert!(matches!(
            comes.answer().await,
            Some(Response::Appended { .. })
        ));
    });
}

#[test]
fn an_address_that_others_reach_is_listened_on_only_with_protection() {
    let tokens = TokenFile::new(&[("one", "append", &[])]);
    run(async {
        let (log, _) = Log::open(MemoryDisk::new(1), small()).await.unwrap();
        let none = Security::default();
        let no_tls = Security {
            insecure_no_tls: true,
            ..none.clone()
        };
        let no_tokens = Security {
            insecure_no_tokens: true,
            ..none.clone()
        };
        let with_tokens = tokens.security();
        let refused = [
            (none, "--tls-cert, --tls-key and --tokens"),
            (no_tls, "--insecure-no-tokens"),
            (no_tokens, "--insecure-no-tls"),
            (with_tokens, "--insecure-no-tls"),
        ];
        for (security, said) in refused {
            for address in ["0.0.0.0:0", "[::]:0"] {
                let logs = (Some(log.clone()), None);
                let config = ServerConfig::default();
                let bound = Server::bind_secured(address, logs, config, security.clone()).await;
                let error = bound.unwrap_err();
                assert!(matches!(error, BindError::Exposed { .. }), "{error}");
                assert!(error.to_string().contains(said), "{error}");
            }
        }
        let bound = Server::bind("127.0.0.1:0", log, ServerConfig::default()).await;
        bound.unwrap();
    });
}

#[test]
fn a_name_or_a_token_that_is_none_is_not_sent() {
    run(async {
        for connect in [
            Connect::new().token(vec![b'a'; 257]),
            Connect::new().log("a".repeat(65)),
        ] {
            // Nobody listens there; it does not come to that.
            let error = connect.connect("127.0.0.1:1").await.unwrap_err();
            assert!(
                matches!(
                    error,
                    ClientError::Unusable { .. } | ClientError::Refused { .. }
                ),
                "{error}"
            );
        }
        let shown = format!("{:?}", Connect::new().token("txl_hidden"));
        assert!(!shown.contains("hidden"), "{shown}");
    });
}
