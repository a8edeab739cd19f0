//! Whole configurations, and those that nobody has written.

mod kept;
mod refused;

use proptest::prelude::*;

use super::*;
use crate::config;

fn converted(text: &str) -> Converted {
    convert("haproxy.cfg", text, &|_| None)
}

/// A configuration, and what it has to become.
const SAMPLES: [(&str, &str, &str); 5] = [
    (
        "shop",
        include_str!("samples/shop.cfg"),
        include_str!("samples/shop.toml"),
    ),
    (
        "database",
        include_str!("samples/database.cfg"),
        include_str!("samples/database.toml"),
    ),
    (
        "edge",
        include_str!("samples/edge.cfg"),
        include_str!("samples/edge.toml"),
    ),
    (
        "guard",
        include_str!("samples/guard.cfg"),
        include_str!("samples/guard.toml"),
    ),
    (
        "tenants",
        include_str!("samples/tenants.cfg"),
        include_str!("samples/tenants.toml"),
    ),
];

#[test]
fn samples_become_what_was_read_by_people() {
    for (name, text, toml) in SAMPLES {
        let converted = convert(&format!("{name}.cfg"), text, &|_| None);
        let errors = converted.remarks.iter().filter(|remark| remark.is_error);
        let errors: Vec<String> = errors.map(ToString::to_string).collect();
        assert!(errors.is_empty(), "{name}: {}", errors.join("\n"));
        assert_eq!(converted.toml, toml, "{name}");
        config::parse(name, &converted.toml).unwrap();
    }
}

#[test]
fn what_is_not_there_is_said_with_its_line_and_the_rest_is_good() {
    let text = include_str!("samples/legacy.cfg");
    let converted = converted(text);
    assert!(!converted.is_whole());
    // Sections of which the first line says it all.
    let silent = ["peer a", "nameserver one"];
    let plain = [
        "global",
        "defaults",
        "mode ",
        "timeout connect",
        "frontend",
        "backend",
        "listen",
        "#",
        "default_backend",
        "server a",
        "server b",
        "server d",
        "bind :9000",
        "log /dev/log",
    ];
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        let begins = |with: &&str| trimmed.starts_with(*with);
        let expects = !(trimmed.is_empty() || silent.iter().chain(&plain).any(begins));
        let found = converted
            .remarks
            .iter()
            .find(|remark| remark.line == index + 1);
        if expects {
            let remark = found.unwrap_or_else(|| panic!("line {} is silent: {line}", index + 1));
            assert_eq!(remark.text, line);
        }
    }
    config::parse("legacy", &converted.toml).unwrap();
    let missing = converted.toml.matches("# NOT CONVERTED: line").count();
    let errors = converted
        .remarks
        .iter()
        .filter(|remark| remark.is_error)
        .count();
    assert_eq!(
        missing, errors,
        "each stands where it is missing: {}",
        converted.toml
    );
}

#[test]
fn http_2_is_spoken_where_it_was() {
    for (bind, said) in [
        (":80", None),
        (":80 proto h2", Some("h2 = { only = true }")),
        (":80 proto h1", Some("h2 = { enabled = false }")),
        (":443 ssl crt a.pem", Some("h2 = { enabled = false }")),
        (":443 ssl crt a.pem alpn h2,http/1.1", None),
    ] {
        let text = format!("listen a\n mode http\n bind {bind}\n server s x:1 proto h2\n");
        let converted = converted(&text);
        assert!(converted.is_whole(), "{bind}: {:?}", converted.remarks);
        let found = converted
            .toml
            .lines()
            .find(|line| line.starts_with("h2 = "));
        assert_eq!(found, said, "{bind}");
        assert!(
            converted.toml.contains("protocol = \"h2\""),
            "{}",
            converted.toml
        );
    }
}

#[test]
fn a_remark_shows_its_line() {
    let converted = converted("listen a\n  bind :80\n  server s 10.0.0.1:80 check flying\n");
    let said: Vec<String> = converted.remarks.iter().map(ToString::to_string).collect();
    let whole = "haproxy.cfg:3: error: flying of a server has no counterpart here\n    3 | \
                 server s 10.0.0.1:80 check flying";
    assert_eq!(said, [whole]);
}

#[test]
fn defaults_are_those_above_or_those_that_are_named() {
    let text = "defaults one\n timeout connect 1s\ndefaults two\n timeout connect 2s\n\
                listen a\n bind :81\n server s x:1\nlisten b from one\n bind :82\n server s x:1\n\
                defaults\nlisten c\n bind :83\n server s x:1\nlisten d from none\n bind :84\n";
    let converted = converted(text);
    let part = |from: &str, to: &str| {
        let (_, rest) = converted.toml.split_once(from).unwrap();
        rest.split(to).next().unwrap().to_owned()
    };
    assert!(part("[pool.a]", "[pool.b]").contains("connect = \"2s\""));
    assert!(part("[pool.b]", "[pool.c]").contains("connect = \"1s\""));
    assert!(!part("[pool.c]", "listen d").contains("timeouts"));
    let said = &converted
        .remarks
        .iter()
        .find(|remark| remark.line == 15)
        .unwrap()
        .message;
    assert!(said.contains("there are no defaults \"none\""), "{said}");
}

/// Lines of which random configurations are made, with values that are good and others.
const LINES: &[&str] = &[
    "mode http",
    "mode tcp",
    "balance leastconn",
    "balance uri",
    "balance hdr(x)",
    "balance source",
    "hash-type consistent",
    "option forwardfor",
    "option httpchk HEAD /x",
    "no option httpchk",
    "http-check expect status 200-299",
    "option http-server-close",
    "retries 3",
    "maxconn 100",
    "default_backend b1",
    "default_backend b2",
    "use_backend b1 if x",
    "use_backend b2 unless x !y",
    "use_backend b1 if { path_beg /z } || y",
    "use_backend b2 if METH_GET x",
    "acl x path_beg /a /b/",
    "acl x hdr(host) -i a.example",
    "acl y hdr_end(host) .a.example",
    "acl y method PUT",
    "acl y path_end .png",
    "acl y hdr(x-a) 1",
    "acl y src 10.0.0.0/8 ::1",
    "acl x src 10.1.0.0/16",
    "acl y path_reg ^/[0-9]+$",
    "acl x hdr_sub(user-agent) -i bot",
    "acl y hdr_beg(host) www.",
    "http-request deny if { src 10.1.2.3 } !x",
    "monitor-uri http://a.example/up",
    "unique-id-header X-Id",
    "log 127.0.0.1 local3",
    "http-check expect rstatus ^2",
    "default-server inter 3s maxconn 9",
    "bind :80",
    "bind :83 proto h2",
    "server s5 10.0.0.5:80 proto h2",
    "bind 127.0.0.1:0,:::81 accept-proxy",
    "bind /run/a.sock",
    "server s1 10.0.0.1:80",
    "server s4 10.0.0.4:80 weight 9 maxconn 5",
    "server s1 10.0.0.2:80 backup",
    "server s2 x.example:443 ssl verify none",
    "server s3 10.0.0.3:80 send-proxy disabled",
    "timeout server 5m",
    "timeout tunnel 3d",
    "timeout client 10",
    "http-request deny if x",
    "http-request redirect scheme https code 301 unless { ssl_fc }",
    "http-request set-header X-A \"b {c} %[src]\"",
    "http-response del-header server",
    "redirect location https://a.example/x if y",
    "monitor-uri /up",
    "compression algo gzip",
    "cookie C insert secure",
    "log stdout local0",
    "http-request deny if { path_end .php } !y",
    "http-request set-header X-B %[src] if { ssl_fc }",
    "use_backend b2 if { method PUT } { hdr(host) b.example } or !x",
];

fn line() -> impl Strategy<Value = String> {
    let fixed = prop::sample::select(LINES);
    let sections = prop::sample::select(vec![
        "disabled",
        "global",
        "defaults",
        "defaults d from d",
        "frontend f1",
        "frontend f2 from d",
        "backend b1",
        "listen b2",
        "listen odd:name",
    ]);
    let odd = "[a-z]{1,6}( [ -~]{0,12}){0,3}";
    let (fixed, sections) = (
        fixed.prop_map(str::to_owned),
        sections.prop_map(str::to_owned),
    );
    prop_oneof![60 => fixed, 2 => sections, 1 => odd]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn what_converts_is_good(
        shared in prop::collection::vec(line(), 0..6),
        front in prop::collection::vec(line(), 0..12),
        behind in prop::collection::vec(line(), 0..6),
        more in prop::collection::vec(line(), 0..6),
    ) {
        let lines = |lines: &[String]| lines.join("\n ");
        let text = format!(
            "defaults\n mode http\n {}\nlisten web\n bind 127.0.0.1:9\n acl x path /x\n \
             acl y hdr(y) y\n server s 10.0.0.9:80\n {}\nbackend b1\n server s 10.0.0.8:80\n {}\n\
             backend b2\n server s 10.0.0.7:80\n{}\n",
            lines(&shared), lines(&front), lines(&behind), lines(&more)
        );
        let converted = converted(&text);
        let is_whole = converted.is_whole();
        if is_whole {
            let checked = config::parse("result", &converted.toml);
            prop_assert!(checked.is_ok(), "{}\n{}", checked.unwrap_err(), converted.toml);
        }
        let read: Result<::toml::Table, _> = converted.toml.parse();
        prop_assert!(read.is_ok(), "{:?}\n{}", read, converted.toml);
    }
}

#[test]
fn connections_are_taken_by_client_and_by_name() {
    let text = "frontend in\n mode tcp\n bind :443\n tcp-request inspect-delay 5s\n\
                tcp-request connection accept if { src 10.1.0.0/16 }\n\
                tcp-request connection reject if { src 10.0.0.0/8 }\n\
                tcp-request content accept if { req.ssl_hello_type 1 }\n\
                use_backend one if { req.ssl_sni -i A.example }\n\
                use_backend two if { req_ssl_sni -m end .b.example }\n default_backend one\n\
                backend one\n mode tcp\n server a 127.0.0.1:1\n\
                backend two\n mode tcp\n server a 127.0.0.1:2\n";
    let converted = converted(text);
    let errors = converted.remarks.iter().filter(|remark| remark.is_error);
    let errors: Vec<String> = errors.map(ToString::to_string).collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
    let config = config::parse("x", &converted.toml).unwrap();
    let listener = config.listeners["in"].get_ref();
    assert_eq!(listener.timeouts.head, std::time::Duration::from_secs(5));
    let router = |client: &str, name: Option<&str>| {
        let client = client.parse().unwrap();
        let takes = |route: &&::toml::Spanned<config::Route>| {
            let route = route.get_ref();
            let has = |names: &Vec<String>| {
                let mut names = names.iter();
                names.any(|one| match one.strip_prefix('*') {
                    Some(end) => name.is_some_and(|name| name.ends_with(end)),
                    None => name == Some(one),
                })
            };
            let is_at = |all: &Vec<config::Network>| all.iter().any(|one| one.has(client));
            route.server_names.as_ref().is_none_or(has) && route.client.as_ref().is_none_or(is_at)
        };
        let route = listener.routes.iter().find(takes);
        match route.map(|route| route.get_ref()) {
            Some(route) if route.reject => "reject".to_owned(),
            Some(route) => route.pool.as_ref().unwrap().get_ref().clone(),
            None => listener.pool.as_ref().unwrap().get_ref().clone(),
        }
    };
    for (client, name, to) in [
        ("192.0.2.1", Some("a.example"), "one"),
        ("192.0.2.1", Some("x.b.example"), "two"),
        ("192.0.2.1", Some("b.example"), "one"),
        ("192.0.2.1", None, "one"),
        ("10.2.0.1", Some("x.b.example"), "reject"),
        ("10.2.0.1", None, "reject"),
        ("10.1.0.1", Some("x.b.example"), "two"),
        ("10.1.0.1", None, "one"),
    ] {
        assert_eq!(
            router(client, name),
            to,
            "{client} {name:?}\n{}",
            converted.toml
        );
    }
}

#[test]
fn what_a_mode_does_not_know_is_said() {
    for (mode, line, said) in [
        (
            "tcp",
            "use_backend b if { path /a }",
            "the name asked for by TLS alone",
        ),
        (
            "http",
            "use_backend b if { req.ssl_sni a.example }",
            "by the host",
        ),
        (
            "tcp",
            "tcp-request content reject if { req.ssl_hello_type 1 }",
            "and not by",
        ),
        (
            "tcp",
            "tcp-request connection track-sc0 src",
            "track-sc0 has no counterpart",
        ),
        ("tcp", "use_backend b if { req.ssl_sni -m sub a }", "whole"),
        (
            "http",
            "compression type te\u{c}t/html",
            "compression algo gzip",
        ),
    ] {
        let text = format!(
            "frontend in\n mode {mode}\n bind :443\n {line}\n default_backend b\n\
             backend b\n mode {mode}\n server a 127.0.0.1:1\n"
        );
        let converted = converted(&text);
        let found = converted
            .remarks
            .iter()
            .any(|it| it.is_error && it.to_string().contains(said));
        let all: Vec<String> = converted.remarks.iter().map(ToString::to_string).collect();
        assert!(found, "{line}: {}", all.join("\n"));
    }
}
