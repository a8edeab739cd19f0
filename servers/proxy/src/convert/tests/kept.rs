//! What HAProxy does of what a line says is done here, too, or is said.

use super::converted;
use crate::config;

/// A frontend with these lines, and two backends.
fn front(mode: &str, lines: &str) -> String {
    format!(
        "frontend in\n mode {mode}\n bind :8080\n {lines}\n default_backend b\n\
         backend a\n mode {mode}\n server s 127.0.0.1:1\n\
         backend b\n mode {mode}\n server s 127.0.0.1:2\n"
    )
}

/// What is said of it, with the result behind.
fn said(text: &str) -> String {
    let converted = converted(text);
    let remarks = converted.remarks.iter().map(ToString::to_string);
    let all: Vec<String> = remarks.collect();
    if !all.iter().any(|remark| remark.contains(" error: ")) {
        let checked = config::parse("result", &converted.toml);
        checked.unwrap_or_else(|wrong| panic!("{wrong}\n{}", converted.toml));
    }
    all.join("\n") + "\n" + &converted.toml
}

#[test]
fn what_would_be_lost_is_said() {
    for (mode, lines, what) in [
        // TLS that ends before the proxy.
        (
            "http",
            "http-request set-header X-Forwarded-Proto https",
            "not what they speak with a proxy in front",
        ),
        ("tcp", "use_backend a if HTTP", "by the client and by"),
        (
            "tcp",
            "tcp-request content accept if { req.ssl_hello_type 1 }\n \
             tcp-request content reject if { src 10.0.0.0/8 }",
            "write this one before it",
        ),
        (
            "http",
            "bind :8081 accept-proxy\n tcp-request connection reject if { src 10.0.0.5 }",
            "write tcp-request session",
        ),
        (
            "http",
            "http-request set-header X-Port %fp",
            "%fp is put in by HAProxy",
        ),
        ("http", "maxconn 100", "refused at once here"),
        (
            "http",
            "log 127.0.0.1:1 local0\n log 127.0.0.1:2 local0",
            "one log here",
        ),
        (
            "http",
            "http-request deny if { req.cook(a) -m found }",
            "is SERVED without it",
        ),
    ] {
        let said = said(&front(mode, lines));
        assert!(said.contains(what), "{lines}: {said}");
    }
    let in_backend = front("http", "").replace(
        "backend b\n",
        "backend b\n http-request set-header X-Forwarded-Proto http\n",
    );
    let said = said(&in_backend);
    assert!(said.contains("for all of a frontend"), "{said}");
}

#[test]
fn what_is_the_same_here_becomes_that() {
    for (lines, what) in [
        // Members of a list are compared.
        (
            "use_backend a if { hdr(X-Role) one }",
            "header_matches = { \"x-role\"",
        ),
        (
            "use_backend a if { req.fhdr(X-Role) one }",
            "headers = { \"x-role\" = \"one\" }",
        ),
        // Nothing is said by it, as nobody speaks TLS here.
        (
            "http-request set-header X-Forwarded-Proto https if { ssl_fc }",
            "forwarded_for = \"keep\"",
        ),
        (
            "http-request set-header X-Forwarded-Proto http if !{ ssl_fc }",
            "forwarded_for = \"replace\"",
        ),
        ("", "retries = { max = 3, budget_percent = 100, reserve"),
    ] {
        let said = said(&front("http", lines));
        assert!(!said.contains(" error: "), "{lines}: {said}");
        assert!(said.contains(what), "{lines}: {said}");
    }
}

#[test]
fn clients_need_certificates_where_they_are_verified() {
    for (words, needs) in [
        ("ca-file /ca.pem", false),
        ("verify none ca-file /ca.pem", false),
        ("ca-file /ca.pem verify none", false),
        ("ca-file /ca.pem verify required", true),
        ("verify required ca-file /ca.pem", true),
    ] {
        let text = front("http", "").replace(
            "bind :8080",
            &format!("bind :8080 ssl crt /site.pem {words}"),
        );
        let toml = converted(&text).toml;
        assert_eq!(toml.contains("client_ca"), needs, "{words}: {toml}");
    }
    let alone = front("http", "").replace(":8080", ":8080 ssl crt /site.pem verify required");
    assert!(said(&alone).contains("needs a ca-file"));
}

#[test]
fn connections_beyond_the_limit_of_all_wait() {
    let text = format!("global\n maxconn 50\n{}", front("http", ""));
    let config = config::parse("x", &converted(&text).toml).unwrap();
    assert_eq!(config.process.get_ref().connections_max, 50);
    assert!(config.listeners["in"].get_ref().connections_max > 50);
}

#[test]
fn no_tunnel_is_shorter_than_its_backend_says() {
    let tunnels = |a: &str, b: &str| {
        front("http", "use_backend a if { path_beg /a }")
            .replace("backend a\n", &format!("backend a\n timeout tunnel {a}\n"))
            .replace("backend b\n", &format!("backend b\n timeout tunnel {b}\n"))
    };
    for (a, b, is_said) in [
        ("20s", "2s", true),
        ("2s", "20s", true),
        ("20s", "20s", false),
    ] {
        let said = said(&tunnels(a, b));
        assert!(said.contains("idle = \"20s\""), "{said}");
        assert_eq!(said.contains("as long as the longest"), is_said, "{said}");
    }
}
