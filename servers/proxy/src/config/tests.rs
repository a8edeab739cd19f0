//! What is said of wrong configurations, and where.

use super::*;

const GOOD: &str = r#"
[process]
connections_max = 100
drain = "5s"

[class.video]
share = 40
latency_target = "500us"

[listener.web]
bind = "127.0.0.1:0"
mode = "http"
pool = "app"

[[listener.web.route]]
host = "*.example.org"
path = "/api"
methods = ["GET"]
headers = { "x-canary" = "1" }
pool = "api"
class = "video"

[listener.web.timeouts]
head = "2s"

[listener.raw]
bind = "unix:/run/raw"
mode = "tcp"
pool = "app"
accept_proxy = true
class = "bulk"

[pool.app]
balance = "least-connections"
slow_start = "30s"

[[pool.app.server]]
name = "a"
address = "127.0.0.1:81"
weight = 3
send_proxy = "v2"

[pool.app.check]
kind = "http"
path = "/healthz"

[pool.api]
balance = "hash"
hash_on = "header:x-user"

[[pool.api.server]]
name = "b"
address = "b.example:81"
"#;

#[test]
fn a_whole_configuration_is_read_with_its_defaults() {
    let config = parse("good", GOOD).unwrap();
    let web = config.listeners["web"].get_ref();
    assert_eq!(web.timeouts.head, Duration::from_secs(2));
    assert_eq!(web.timeouts.body, Duration::from_secs(30));
    assert_eq!(
        web.routes[0].get_ref().pool.as_ref().unwrap().get_ref(),
        "api"
    );
    let class = config.listeners["raw"].get_ref().class.as_ref().unwrap();
    assert_eq!(class.get_ref(), "bulk");
    let video = config.classes["video"].get_ref();
    assert_eq!(video.share, Some(40));
    assert_eq!(video.latency_target, Some(Duration::from_micros(500)));
    let app = config.pools["app"].get_ref();
    assert_eq!(app.slow_start, Some(Duration::from_secs(30)));
    assert_eq!(app.check.as_ref().unwrap().rise, 2);
    assert_eq!(app.servers[0].get_ref().weight, 3);
    assert_eq!(config, parse("again", GOOD).unwrap());
}

/// The line and the message of the only problem after a change of the good configuration.
fn problem(old: &str, new: &str) -> (String, String) {
    assert_eq!(GOOD.matches(old).count(), 1, "{old}");
    let text = GOOD.replace(old, new);
    match parse("file", &text).unwrap_err() {
        ConfigError::Wrong { problems } => {
            assert_eq!(problems.len(), 1, "{problems:?}");
            let line = text.lines().nth(problems[0].line - 1).unwrap_or_default();
            assert_eq!(problems[0].text, line);
            (line.to_owned(), problems[0].message.clone())
        }
        error => panic!("{error}"),
    }
}

const ROUTE: &str = "[[listener.web.route]]";
const SERVER: &str = "[[pool.app.server]]";

/// Changes of the good configuration, the line that is wrong then, and a word of the message.
const WRONG: [(&str, &str, &str, &str); 27] = [
    ("head = \"2s\"", "haed = \"2s\"", "haed = \"2s\"", "haed"),
    (
        "head = \"2s\"",
        "head = \"2\"",
        "head = \"2\"",
        "write a number",
    ),
    ("head = \"2s\"", "head = 2", "head = 2", "string"),
    ("\"*.example.org\"", "\"a:80\"", ROUTE, "without a port"),
    ("path = \"/api\"", "path = \"api\"", ROUTE, "from its \"/\""),
    (
        "path = \"/api\"",
        "path_begins = \"/api?\"",
        ROUTE,
        "has a query",
    ),
    (
        "balance = \"hash\"\nhash_on = \"header:x-user\"",
        "sticky = { cookie = \"a\", max_age = \"500ms\" }",
        "sticky = { cookie = \"a\", max_age = \"500ms\" }",
        "shorter than a second",
    ),
    ("mode = \"http\"", "mode = \"htp\"", "mode = \"htp\"", "htp"),
    (
        "pool = \"api\"",
        "pool = \"apy\"",
        "pool = \"apy\"",
        "there are api, app",
    ),
    (
        "class = \"video\"",
        "class = \"audio\"",
        "class = \"audio\"",
        "bulk, video",
    ),
    (
        "share = 40",
        "share = 0",
        "[class.video]",
        "between 1 and 10000",
    ),
    ("\"500us\"", "\"5us\"", "[class.video]", "from 10us to 10s"),
    (
        "\"unix:/run/raw\"",
        "\"raw\"",
        "bind = \"raw\"",
        "HOST:PORT",
    ),
    (
        "bind = \"unix:/run/raw\"",
        "bind = \"unix:/run/raw\"\ncongestion_control = \"cubic\"",
        "bind = \"unix:/run/raw\"",
        "drop congestion_control",
    ),
    (
        "bind = \"unix:/run/raw\"",
        "bind = \"unix:/run/raw\"\ncongestion_control = \"a b\"",
        "congestion_control = \"a b\"",
        "a name such as \"cubic\"",
    ),
    ("weight = 3", "weight = 257", SERVER, "between 0 and 256"),
    (
        "\"header:x-user\"",
        "\"cookie\"",
        "hash_on = \"cookie\"",
        "nothing to hash",
    ),
    (
        "hash_on = \"header:x-user\"",
        "",
        "[pool.api]",
        "hash of nothing",
    ),
    (
        "name = \"b\"",
        "name = \"b/c\"",
        "[[pool.api.server]]",
        "no name",
    ),
    ("\"v2\"", "\"v3\"", "send_proxy = \"v3\"", "v3"),
    ("max = 100", "max = -1", "connections_max = -1", "-1"),
    (
        "drain = \"5s\"",
        "io_check_bound = \"5us\"",
        "[process]",
        "process.io_check_bound has to be from 10us",
    ),
    (
        "drain = \"5s\"",
        "real_time = true\nio_check_bound = \"3ms\"",
        "[process]",
        "process.io_check_bound has to be 2ms or less with process.real_time",
    ),
    (
        "drain = \"5s\"",
        "real_time = \"yes\"",
        "real_time = \"yes\"",
        "expected true, false or \"auto\"",
    ),
    (
        "drain = \"5s\"",
        "io_check_events = 0",
        "[process]",
        "process.io_check_events",
    ),
    (
        "max = 100",
        "max = 0",
        "[process]",
        "process.connections_max",
    ),
    ("[pool.api]", "[pool.api", "[pool.api", "]"),
];

#[test]
fn real_time_priority_is_taken_where_it_may_be_unless_something_else_is_said() {
    let read = |said: &str| {
        let config = parse("good", &GOOD.replace("drain = \"5s\"", said)).unwrap();
        config.process.get_ref().real_time
    };
    assert_eq!(read(""), RealTime::Auto);
    // Of the workers that serve, that leaves none that may have it, which is no error.
    assert_eq!(
        read("real_time = \"auto\"\nio_check_bound = \"3ms\""),
        RealTime::Auto
    );
    assert_eq!(read("real_time = true"), RealTime::Yes);
    assert_eq!(read("real_time = false"), RealTime::No);
}

#[test]
fn errors_say_the_line_and_the_cause() {
    for (old, new, line, said) in WRONG {
        let (at, message) = problem(old, new);
        assert!(message.contains(said), "{message}");
        assert_eq!(at, line, "{message}");
    }
}

#[test]
fn all_problems_are_said_at_once() {
    let text = "[listener.a]\nbind = \"127.0.0.1:1\"\nmode = \"tcp\"\n\
                [listener.b]\nbind = \"127.0.0.1:1\"\nmode = \"http\"\npool = \"x\"\n";
    let error = parse("file", text).unwrap_err().to_string();
    for said in [
        "file:1:1: listener a",
        "file:5:8: listeners a and b",
        "file:7:8: there is no",
    ] {
        assert!(error.contains(said), "{error}");
    }
    assert!(
        error.contains("    7 | pool = \"x\"\n      |        ^"),
        "{error}"
    );
    let nothing = parse("file", "").unwrap_err().to_string();
    assert!(nothing.contains("nothing listens"), "{nothing}");
}

#[test]
fn tcp_has_nothing_of_requests() {
    let (line, message) = problem(
        "mode = \"tcp\"\npool = \"app\"",
        "mode = \"tcp\"\npool = \"api\"",
    );
    assert_eq!(line, "pool = \"api\"");
    assert!(message.contains("hash_on = \"client\""), "{message}");
    let text = GOOD.replace("mode = \"http\"", "mode = \"tcp\"");
    let errors = parse("file", &text).unwrap_err().to_string();
    for said in [
        "server_names, client, pool, reject",
        "takes all connections",
        "hash_on",
    ] {
        assert!(errors.contains(said), "{said}: {errors}");
    }
    let names = format!("{ROUTE}\nserver_names = [\"a\"]");
    let (line, message) = problem(ROUTE, &names);
    assert_eq!(line, ROUTE);
    assert!(message.contains("for mode \"tcp\""), "{message}");
}

#[test]
fn what_http2_cannot_have_is_said() {
    for (old, new, line, said) in [
        (
            "head = \"2s\"",
            "head = \"2s\"\n[listener.web.h2]\nwindow = 100",
            "[listener.web]",
            "h2.window is 100, and has to be between 65535",
        ),
        (
            "head = \"2s\"",
            "head = \"2s\"\n[listener.web.h2]\nenabled = false\nonly = true",
            "[listener.web]",
            "h2.only needs h2.enabled",
        ),
        (
            "[pool.api]",
            "[pool.api]\nprotocol = \"h3\"",
            "protocol = \"h3\"",
            "h3",
        ),
        (
            "kind = \"http\"\npath = \"/healthz\"",
            "kind = \"grpc\"",
            "[pool.app]",
            "needs protocol = \"h2\"",
        ),
        (
            "path = \"/healthz\"",
            "service = \"a.B\"",
            "[pool.app]",
            "check.service is for kind \"grpc\"",
        ),
    ] {
        let (at, message) = problem(old, new);
        assert!(message.contains(said), "{message}");
        assert_eq!(at, line, "{message}");
    }
    let shared = GOOD.replace("slow_start = \"30s\"", "protocol = \"h2\"");
    let error = parse("file", &shared).unwrap_err().to_string();
    for said in ["drop send_proxy", "this listener mode \"tcp\""] {
        assert!(error.contains(said), "{error}");
    }
}
