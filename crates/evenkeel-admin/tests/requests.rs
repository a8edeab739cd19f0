//! What is answered, to whom, and what is refused.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use evenkeel::net::{Delivery, TcpStream};
use evenkeel::runtime::Handle;
use evenkeel::{BusyWait, Class};
use evenkeel_admin::{Admin, AdminError, BODY_BYTES_MAX, Builder, listen};
use serde_json::json;
use support::{LIMIT, ask, get, put, runtime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const ANY: &str = "127.0.0.1:0";

#[test]
fn each_path_has_what_it_says() {
    runtime().block_on(async {
        let admin = listen(ANY).await.unwrap();
        let health = get(&admin, "/healthz").await;
        assert_eq!((health.status, health.body.as_str()), (200, "ok\n"));
        for (path, kind) in [
            ("/", "text/html"),
            ("/page.js", "text/javascript"),
            ("/page.css", "text/css"),
            ("/metrics", "application/openmetrics-text"),
            ("/stats", "application/json"),
            ("/stats.txt", "text/plain"),
            ("/settings", "application/json"),
        ] {
            let answer = get(&admin, path).await;
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
            let header = format!("content-type: {kind}");
            assert!(answer.head.contains(&header), "{path}: {}", answer.head);
            assert!(answer.head.contains("cache-control: no-store"), "{path}");
            assert!(
                answer.head.contains("x-content-type-options: nosniff"),
                "{path}"
            );
        }
        admin.shutdown().await;
    });
}

#[test]
fn a_request_that_fits_nothing_gets_an_error_that_says_so() {
    runtime().block_on(async {
        let admin = listen(ANY).await.unwrap();
        get(&admin, "/nothing")
            .await
            .assert_problem(404, "/nothing");
        let answer = put(&admin, "/stats", "{}").await;
        answer.assert_problem(405, "GET");
        assert!(answer.head.contains("allow: get"), "{}", answer.head);
        let change = "/settings/classes/bulk";
        get(&admin, change).await.assert_problem(405, "PUT");
        for (body, status, part) in [
            ("", 400, "EOF"),
            ("{\"share\": 0}", 400, "0"),
            ("{\"share\": 10001}", 400, "10001"),
            ("{\"share\": -1}", 422, "-1"),
            ("{\"shares\": 1}", 422, "shares"),
            ("{\"share\": \"1\"}", 422, "share"),
            ("{\"latency_target_us\": 1}", 400, "latency"),
            ("[]", 422, "length"),
        ] {
            put(&admin, change, body).await.assert_problem(status, part);
        }
        let nobody = put(&admin, "/settings/classes/nobody", "{}").await;
        nobody.assert_problem(404, "nobody");
        let large = " ".repeat(BODY_BYTES_MAX + 1);
        put(&admin, change, &large)
            .await
            .assert_problem(413, "length limit");
        // Nothing has changed.
        let bulk = &get(&admin, "/settings").await.json()["classes"][2];
        assert_eq!(
            (bulk["name"].as_str(), bulk["share"].as_u64()),
            (Some("bulk"), Some(20))
        );
    });
}

#[test]
fn a_class_is_changed_and_what_is_left_out_stays() {
    let runtime = runtime();
    runtime.block_on(async {
        let admin = listen(ANY).await.unwrap();
        let answer = put(&admin, "/settings/classes/bulk", "{\"share\": 70}").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let bulk = &answer.json()["classes"][2];
        assert_eq!(bulk["share"], 70);
        assert_eq!(bulk["latency_target_us"], 20_000);
        let body = "{\"latency_target_us\": 5000}";
        put(&admin, "/settings/classes/bulk", body).await;
        let infos = Handle::current().classes();
        let bulk = infos.iter().find(|info| info.class == Class::BULK).unwrap();
        assert_eq!((bulk.share, bulk.latency_target.as_micros()), (70, 5000));
    });
}

/// What can be changed beside the classes.
async fn rest(admin: &Admin) -> serde_json::Value {
    let mut settings = get(admin, "/settings").await.json();
    settings.as_object_mut().unwrap().remove("classes");
    settings
}

#[test]
fn busy_waiting_hand_off_and_delivery_are_changed() {
    runtime().block_on(async {
        let admin = listen(ANY).await.unwrap();
        let coalesce = json!({ "mode": "coalesce", "bytes": 4096, "delay_us": 60_000_000 });
        for (path, body) in [
            ("/settings/busy_wait", json!({ "level": "short" })),
            ("/settings/hand_off", json!({ "after_us": 5_000 })),
            ("/settings/delivery", coalesce.clone()),
        ] {
            let answer = put(&admin, path, &body.to_string()).await;
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
        }
        let runtime = Handle::current();
        assert_eq!(runtime.busy_wait(), BusyWait::Short);
        assert_eq!(runtime.hand_off_after(), Some(Duration::from_millis(5)));
        let delay = Duration::from_secs(60);
        assert_eq!(
            runtime.delivery(),
            Delivery::Coalesce { bytes: 4096, delay }
        );
        let said = rest(&admin).await;
        let expected = json!({
            "busy_wait": "short", "hand_off_after_us": 5_000, "delivery": coalesce
        });
        assert_eq!(said, expected);
        put(&admin, "/settings/hand_off", "{\"after_us\": null}").await;
        assert_eq!(runtime.hand_off_after(), None);
        put(&admin, "/settings/delivery", "{\"mode\": \"immediate\"}").await;
        assert_eq!(runtime.delivery(), Delivery::Immediate);
    });
}

/// Otherwise a long delay that was set over HTTP could not be taken back.
#[test]
fn a_long_delay_of_the_runtimes_streams_does_not_hold_up_requests() {
    runtime().block_on(async {
        let admin = listen(ANY).await.unwrap();
        let runtime = Handle::current();
        let (bytes, delay) = (1 << 20, Delivery::DELAY_MAX);
        let descriptors = || runtime.stats().readiness.descriptors;
        let before = descriptors();
        runtime
            .set_delivery(Delivery::Coalesce { bytes, delay })
            .unwrap();
        let stream = std::net::TcpStream::connect(admin.address()).unwrap();
        // The server waits for the request: bytes that are there already are never held back.
        while descriptors() < before + 1 {
            evenkeel::time::sleep(Duration::from_millis(1)).await;
        }
        stream.set_nonblocking(true).unwrap();
        let mut stream = TcpStream::from_std(stream).unwrap();
        let request = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let read = stream.read_to_string(&mut answer);
        let read = evenkeel::time::timeout(LIMIT, read).await;
        read.expect("an answer in time").unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer:?}");
    });
}

#[test]
fn a_setting_that_is_refused_changes_nothing() {
    runtime().block_on(async {
        let admin = listen(ANY).await.unwrap();
        let before = rest(&admin).await;
        for (path, body, status, part) in [
            ("busy_wait", "{\"level\": \"much\"}", 400, "very_long"),
            ("busy_wait", "{}", 422, "level"),
            ("hand_off", "{\"after_us\": 1}", 400, "200µs"),
            ("hand_off", "{\"after_us\": 60000001}", 400, "60s"),
            ("hand_off", "{}", 422, "after_us"),
            ("hand_off", "{\"after\": 1}", 422, "after"),
            ("delivery", "{\"mode\": \"slow\"}", 422, "slow"),
            (
                "delivery",
                "{\"mode\": \"immediate\", \"bytes\": 1}",
                422,
                "bytes",
            ),
            ("delivery", "{\"mode\": \"coalesce\"}", 422, "bytes"),
            (
                "delivery",
                "{\"mode\": \"adaptive\", \"max_delay_us\": 60000001}",
                400,
                "too long",
            ),
        ] {
            let answer = put(&admin, &format!("/settings/{path}"), body).await;
            answer.assert_problem(status, part);
        }
        let change = get(&admin, "/settings/hand_off").await;
        change.assert_problem(405, "PUT");
        assert_eq!(rest(&admin).await, before);
    });
}

#[test]
fn a_foreign_page_gets_and_changes_nothing() {
    runtime().block_on(async {
        let admin = listen(ANY).await.unwrap();
        let foreign = [("host", "evil.example")];
        for path in ["/", "/stats", "/healthz"] {
            ask(&admin, "GET", path, &foreign, "")
                .await
                .assert_problem(403, "127.0.0.1");
        }
        let change = "/settings/classes/bulk";
        let body = "{\"share\": 1}";
        let plain = [("content-type", "text/plain")];
        ask(&admin, "PUT", change, &plain, body)
            .await
            .assert_problem(415, "json");
        let headers = [
            ("content-type", "application/json"),
            ("origin", "http://evil.example"),
        ];
        ask(&admin, "PUT", change, &headers, body)
            .await
            .assert_problem(403, "another");
        assert_eq!(
            get(&admin, "/settings").await.json()["classes"][2]["share"],
            20
        );
    });
}

#[test]
fn where_others_can_connect_a_token_is_needed() {
    runtime().block_on(async {
        for address in ["0.0.0.0:0", "[::]:0"] {
            let error = listen(address).await.unwrap_err();
            assert!(matches!(error, AdminError::NeedsToken(_)), "{error}");
        }
        let builder = Builder::new().token("correct-horse");
        assert!(
            !format!("{builder:?}").contains("horse"),
            "no token in logs"
        );
        let admin = builder.listen(ANY).await.unwrap();
        get(&admin, "/stats").await.assert_problem(401, "Bearer");
        for path in ["/", "/healthz", "/page.js"] {
            assert_eq!(get(&admin, path).await.status, 200);
        }
        let right = [("authorization", "Bearer correct-horse")];
        assert_eq!(ask(&admin, "GET", "/stats", &right, "").await.status, 200);
        let wrong = [("authorization", "Bearer correct-mouse")];
        ask(&admin, "GET", "/stats", &wrong, "")
            .await
            .assert_problem(401, "Bearer");
    });
}

/// A name in a directory of its own.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("evenkeel-admin-{}-{name}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory).unwrap();
        Self(directory)
    }

    fn socket(&self) -> PathBuf {
        self.0.join("admin.sock")
    }

    fn address(&self) -> String {
        format!("unix:{}", self.socket().display())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_unix_socket_is_its_owners_alone_and_goes_with_the_server() {
    let scratch = Scratch::new("socket");
    runtime().block_on(async {
        let admin = listen(&scratch.address()).await.unwrap();
        let mode = fs::metadata(scratch.socket()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(get(&admin, "/stats").await.status, 200);
        let error = listen(&scratch.address()).await.unwrap_err();
        assert!(matches!(error, AdminError::InUse(_)), "{error}");
        assert_eq!(get(&admin, "/stats").await.status, 200, "it is left alone");
        admin.shutdown().await;
        assert!(!scratch.socket().exists());
        assert_eq!(
            fs::read_dir(&scratch.0).unwrap().count(),
            0,
            "nothing is left"
        );
    });
}

#[test]
fn a_socket_that_was_left_is_replaced_and_another_file_is_not() {
    let scratch = Scratch::new("left");
    drop(std::os::unix::net::UnixListener::bind(scratch.socket()).unwrap());
    runtime().block_on(async {
        let admin = listen(&scratch.address()).await.unwrap();
        assert_eq!(get(&admin, "/healthz").await.status, 200);
        admin.shutdown().await;
        fs::write(scratch.socket(), "precious").unwrap();
        let error = listen(&scratch.address()).await.unwrap_err();
        assert!(matches!(error, AdminError::Listen(..)), "{error}");
        assert_eq!(fs::read(scratch.socket()).unwrap(), b"precious");
    });
}
