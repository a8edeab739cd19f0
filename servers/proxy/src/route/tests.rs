//! Which requests which routes take.

use super::*;
use crate::http;

const CONFIG: &str = r#"
[listener.l]
bind = "127.0.0.1:0"
mode = "http"
pool = "other"
[[listener.l.route]]
host = "*.a.example"
path = "/api"
pool = "api"
[[listener.l.route]]
host = "A.example"
methods = ["PUT", "POST"]
pool = "writes"
class = "bulk"
[[listener.l.route]]
headers = { X-Canary = "1", x-any = "*" }
pool = "canary"
[[listener.l.route]]
path = "/api/"
pool = "slash"
[[listener.l.route]]
path_is = "/only"
pool = "writes"
class = "bulk"
[[listener.l.route]]
path_begins = "/sta"
path_ends = ".png"
pool = "canary"
[[listener.l.route]]
client = ["192.0.2.0/24", "::1"]
path_matches = "^/v[0-9]+/"
pool = "canary"
[[listener.l.route]]
host_matches = "^www[0-9]+\\."
header_matches = { User-Agent = "(?i)bot" }
pool = "writes"
class = "bulk"
[pool]
api.server = [{ name = "a", address = "127.0.0.1:1" }]
writes.server = [{ name = "a", address = "127.0.0.1:1" }]
canary.server = [{ name = "a", address = "127.0.0.1:1" }]
slash.server = [{ name = "a", address = "127.0.0.1:1" }]
other.server = [{ name = "a", address = "127.0.0.1:1" }]
"#;

#[test]
fn the_first_route_whose_conditions_are_all_met_is_taken() {
    let runtime = evenkeel::runtime::Builder::new()
        .workers(1)
        .build()
        .unwrap();
    let config = config::parse("test", CONFIG).unwrap();
    let pools: Pools = runtime.block_on(async {
        let new = |(name, pool): (&String, &toml::Spanned<config::Pool>)| {
            (name.clone(), Pool::new(name, pool.get_ref().clone(), None))
        };
        config.pools.iter().map(new).collect()
    });
    let bulk = |name: &str| (name == "bulk").then_some(Class::BULK);
    let listener = ("l", config.listeners["l"].get_ref());
    let router = Router::new(listener, &pools, Class::NORMAL, bulk, None);
    let client: IpAddr = "192.0.2.77".parse().unwrap();
    for (line, headers, pool) in [
        ("GET /api", "host: x.a.example:80", "api"),
        ("GET /api?b", "host: X.y.A.example.", "api"),
        ("GET /api/b", "host: x.a.example", "api"),
        ("GET /apis", "host: x.a.example", "other"),
        ("GET /api", "host: a.example", "other"),
        ("GET /api", "host: xa.example", "other"),
        ("PUT /api", "host: a.EXAMPLE", "writes"),
        ("put /api", "host: a.example", "other"),
        ("GET /", "host: b\r\nx-canary: 1\r\nX-Any: thing", "canary"),
        ("GET /", "host: b\r\nx-canary: 2\r\nX-Any: thing", "other"),
        ("GET /", "host: b\r\nx-canary: 1", "other"),
        ("GET /api/x", "host: [::1]", "slash"),
        ("GET /api", "host: [::1]:80", "other"),
        ("GET /only?x", "host: b", "writes"),
        ("GET /only/x", "host: b", "other"),
        ("GET /stash/x.png?y", "host: b", "canary"),
        ("GET /stash/x.png/", "host: b", "other"),
        ("GET /x/sta.png", "host: b", "other"),
        ("GET /v12/?", "host: b", "canary"),
        ("GET /x?/v1/", "host: b", "other"),
        ("GET /", "host: WWW1.a:80\r\nuser-agent: aBot", "writes"),
        ("GET /", "host: www1.a\r\nuser-agent: curl", "other"),
        ("GET /", "host: www.a\r\nuser-agent: aBot", "other"),
    ] {
        let text = format!("{line} HTTP/1.1\r\n{headers}\r\n\r\n");
        let mut storage = http::storage();
        let request = Request::parse(text.as_bytes(), &mut storage).unwrap();
        let found = router.find(&request, Some(client)).unwrap();
        assert_eq!(found.pool.as_ref().unwrap().name, pool, "{text}");
        assert_eq!(found.class == Class::BULK, pool == "writes", "{text}");
    }
    let mut storage = http::storage();
    let text = b"GET /v1/ HTTP/1.1\r\nhost: b\r\n\r\n";
    let request = Request::parse(text, &mut storage).unwrap();
    // Whoever comes by a Unix socket is in no network.
    for client in [None, Some("192.0.3.1".parse().unwrap())] {
        let found = router.find(&request, client).unwrap();
        assert_eq!(found.pool.as_ref().unwrap().name, "other", "{client:?}");
    }
}

#[test]
fn hosts_are_compared_without_their_ports() {
    for (host, name) in [
        ("a:80", "a"),
        ("a", "a"),
        ("a.", "a"),
        ("[::1]", "[::1]"),
        ("[::1]:80", "[::1]"),
        ("", ""),
    ] {
        assert_eq!(without_port(host), name, "{host}");
    }
}
