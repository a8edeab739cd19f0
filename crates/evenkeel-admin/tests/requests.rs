//! What is answered, to whom, and what is refused.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use evenkeel::Class;
use evenkeel_admin::{AdminError, BODY_BYTES_MAX, Builder, listen};
use support::{ask, get, put, runtime};

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
        let infos = evenkeel::runtime::Handle::current().classes();
        let bulk = infos.iter().find(|info| info.class == Class::BULK).unwrap();
        assert_eq!((bulk.share, bulk.latency_target.as_micros()), (70, 5000));
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
