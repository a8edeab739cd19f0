//! Users with roles, by RTSP and HTTP, and what they may not do.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use argon2::password_hash::PasswordHasher;
use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cameras::rtsp::auth::{Answering, Credentials};
use serde_json::{Value, json};

use super::support::{Client, LIMIT, Program, simulator, until};

/// A user whose hash is cheap, so that tests are short.
fn user(name: &str, password: &str, more: &str) -> String {
    let params = Params::new(Params::MIN_M_COST, 1, 1, None).unwrap();
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let hash = argon2.hash_password(password.as_bytes()).unwrap();
    format!("[[user]]\nname = {name:?}\npassword_hash = \"{hash}\"\n{more}\n")
}

fn basic(pair: &str) -> String {
    format!("Authorization: Basic {}\r\n", STANDARD.encode(pair))
}

/// The program with two cameras, which all users know but `ann`.
fn program(simulator: &cameras::simulator::Simulator) -> Program {
    let cameras = ["a", "b"].map(|name| {
        let url = simulator.url(0);
        format!("[camera.{name}]\nurl = {url:?}\ndelivery = \"5ms\"\n")
    });
    let users = [
        user("ann", "one", "cameras = [\"a\"]"),
        user("bob", "two", "role = \"admin\""),
        user("cid", "three", "role = \"operator\""),
    ];
    let watch = "[watch]\nlisten = \"127.0.0.1:0\"\n";
    Program::start(&(users.concat() + watch + &cameras.concat()))
}

fn status(program: &Program, method: &str, path: &str, headers: &str, body: &Value) -> u16 {
    let kind = "content-type: application/json\r\n";
    let (head, _) = program.http(
        method,
        path,
        &(kind.to_owned() + headers),
        &body.to_string(),
    );
    head.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn users_are_the_same_by_rtsp_and_http_and_do_what_their_roles_allow() {
    let simulator = simulator();
    let program = program(&simulator);
    // Without digests of all users the password itself is asked for.
    let asked = program.connect().ask("DESCRIBE", &program.url("a"), "");
    assert_eq!(asked.status, 401);
    assert!(
        asked
            .header("WWW-Authenticate")
            .unwrap()
            .starts_with("Basic ")
    );
    let describe = |camera: &str, pair: &str| {
        let mut client = program.connect();
        let answer = client.ask("DESCRIBE", &program.url(camera), &basic(pair));
        answer.status
    };
    until("a can be watched", || describe("a", "ann:one") == 200);
    for (camera, pair, expected) in [
        ("b", "ann:one", 403),
        ("a", "ann:two", 401),
        ("a", "nobody:one", 401),
    ] {
        assert_eq!(describe(camera, pair), expected, "{pair} {camera}");
    }
    // Nobody publishes by a role.
    let mut publisher = program.connect();
    let announced = publisher.ask("ANNOUNCE", &program.url("a"), &basic("bob:two"));
    assert_eq!(announced.status, 403);
    let nothing = &Value::Null;
    assert_eq!(status(&program, "GET", "/api/cameras", "", nothing), 401);
    for (pair, expected) in [
        ("ann:one", 200),
        ("ann:one", 200),
        ("ann:x", 401),
        ("x:one", 401),
    ] {
        let answer = status(&program, "GET", "/api/cameras", &basic(pair), nothing);
        assert_eq!(answer, expected, "{pair}");
    }
    let described = json!({ "url": simulator.url(1) });
    for (pair, expected) in [("ann:one", 403), ("cid:three", 403), ("bob:two", 200)] {
        let path = "/api/cameras/c";
        assert_eq!(
            status(&program, "PUT", path, &basic(pair), &described),
            expected
        );
    }
    for (pair, expected) in [("ann:one", 403), ("cid:three", 404)] {
        // Which `a` answers, as it is not recorded.
        let clip = "/api/cameras/a/clip.mp4?from=1&until=2";
        assert_eq!(
            status(&program, "GET", clip, &basic(pair), nothing),
            expected
        );
    }
    let path = "/api/cameras/b";
    assert_eq!(
        status(&program, "GET", path, &basic("ann:one"), nothing),
        404
    );
}

/// A viewer by RTSP, if the user may watch `a`.
fn plays(program: &Program, pair: &str) -> Option<Client> {
    let mut client = program.connect();
    let (url, header) = (program.url("a"), basic(pair));
    let track = format!("{url}/trackID=0");
    let transport = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n".to_owned();
    let mut asks = |method, url, more: &str| client.ask(method, url, more).status == 200;
    let plays = asks("DESCRIBE", &url, &header)
        && asks("SETUP", &track, &(transport + &header))
        && asks("PLAY", &url, &header);
    plays.then_some(client)
}

/// The same, as soon as the camera can be watched.
fn watches(program: &Program, pair: &str) -> Client {
    let mut client = None;
    until("the camera can be watched", || {
        client = plays(program, pair);
        client.is_some()
    });
    client.unwrap()
}

/// A viewer of `a` by a WebSocket.
fn socket(program: &Program, pair: &str) -> TcpStream {
    let mut stream = TcpStream::connect(&program.watch).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let (host, header) = (&program.watch, basic(pair));
    write!(
        stream,
        "GET /api/cameras/a/live HTTP/1.1\r\nhost: {host}\r\nupgrade: websocket\r\n\
         connection: upgrade\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{header}\r\n"
    )
    .unwrap();
    let mut part = [0; 12];
    stream.read_exact(&mut part).unwrap();
    assert_eq!(&part, b"HTTP/1.1 101");
    stream
}

#[test]
fn who_may_not_watch_any_more_is_cut_off_and_others_go_on() {
    let simulator = simulator();
    let url = simulator.url(0);
    let camera = |name: &str| format!("[camera.{name}]\nurl = {url:?}\ndelivery = \"5ms\"\n");
    let cameras = camera("a") + &camera("b");
    let config = |users: &str| format!("{users}[watch]\nlisten = \"127.0.0.1:0\"\n{cameras}");
    let ann = user("ann", "one", "");
    let bob = user("bob", "two", "role = \"admin\"");
    let program = Program::start(&config(&(ann.clone() + &bob)));
    let is_read_again = |users: &str| {
        program.rewrite(&config(users));
        let nothing = &Value::Null;
        status(&program, "POST", "/api/reload", &basic("bob:two"), nothing) == 200
    };
    let mut good = watches(&program, "bob:two");
    let mut last = good.media().sequence();
    // She is removed, has another password, and may see another camera only.
    let others = user("ann", "three", "");
    let limited = format!("{ann}cameras = [\"b\"]\n");
    for next in ["", &others, &limited] {
        assert!(is_read_again(&(ann.clone() + &bob)));
        let mut by_rtsp = watches(&program, "ann:one");
        let mut by_http = socket(&program, "ann:one");
        by_rtsp.media();
        assert!(is_read_again(&(next.to_owned() + &bob)));
        by_rtsp.ended();
        by_http.read_to_end(&mut Vec::new()).unwrap();
        assert!(plays(&program, "ann:one").is_none());
        for _ in 0..200 {
            let sequence = good.media().sequence();
            assert_eq!(sequence, last.wrapping_add(1));
            last = sequence;
        }
    }
}

#[test]
fn a_publisher_that_is_removed_is_cut_off() {
    let publishers = |name: &str| {
        format!(
            "[[rtsp.user]]\nname = {name:?}\npassword = \"x\"\npublish = [\"a\"]\n\
             [ingest]\nsilence = \"10m\"\n\
             [watch]\nlisten = \"127.0.0.1:0\"\n[camera.a]\n"
        )
    };
    // It is not to end for being silent.
    let program = Program::start(&publishers("gate"));
    let (mut client, url) = (program.connect(), program.url("a"));
    let header = basic("gate:x");
    let described = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n\
        m=audio 0 RTP/AVP 8\r\na=control:trackID=0\r\n";
    let announced = client.request("ANNOUNCE", &url, &header, described);
    assert_eq!(announced.status, 200, "{announced:?}");
    let transport = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1;mode=record\r\n".to_owned();
    let track = format!("{url}/trackID=0");
    let set_up = client.ask("SETUP", &track, &(transport + &header));
    assert_eq!(set_up.status, 200, "{set_up:?}");
    assert_eq!(client.ask("RECORD", &url, &header).status, 200);
    program.rewrite(&publishers("yard"));
    program.signal("HUP");
    program.until_said("read again");
    client.ended();
}

#[test]
fn a_session_is_a_cookie_that_pages_of_others_cannot_use() {
    let simulator = simulator();
    let program = program(&simulator);
    let login = |user: &str, password: &str, headers: &str| {
        let body = json!({ "user": user, "password": password }).to_string();
        let kind = "content-type: application/json\r\n".to_owned();
        program
            .http("POST", "/api/login", &(kind + headers), &body)
            .0
    };
    let foreign = "origin: http://example.org\r\n";
    assert!(login("bob", "wrong", "").starts_with("HTTP/1.1 401"));
    assert!(login("bob", "two", foreign).starts_with("HTTP/1.1 403"));
    let head = login("bob", "two", "");
    let cookie = head
        .lines()
        .find_map(|line| line.strip_prefix("set-cookie: "))
        .unwrap();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let (pair, _) = cookie.split_once(';').unwrap();
    let cookie = format!("cookie: {pair}\r\n");
    let asks = |method, path, more: &str| {
        let headers = cookie.clone() + more;
        status(
            &program,
            method,
            path,
            &headers,
            &json!({ "url": simulator.url(1) }),
        )
    };
    assert_eq!(asks("GET", "/api/cameras", ""), 200);
    assert_eq!(asks("PUT", "/api/cameras/c", foreign), 403);
    assert_eq!(
        asks("PUT", "/api/cameras/c", "sec-fetch-site: cross-site\r\n"),
        403
    );
    assert_eq!(asks("PUT", "/api/cameras/c", ""), 200);
    assert_eq!(asks("POST", "/api/logout", ""), 200);
    assert_eq!(asks("GET", "/api/cameras", ""), 401);
}

fn printed(arguments: &[&str]) -> std::process::Output {
    printed_for(b"four\n", arguments)
}

fn printed_for(input: &[u8], arguments: &[&str]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel-cameras"));
    let mut child = command
        .arg("hash-password")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A name may be refused before anything is read.
    _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

/// What is shown on a terminal, and what is printed elsewhere, when this is typed.
fn typed(lines: [&str; 2]) -> (String, std::process::Output) {
    let terminal = nix::pty::openpty(None, None).unwrap();
    let program = env!("CARGO_BIN_EXE_evenkeel-cameras");
    let mut command = Command::new("setsid");
    command
        .args(["--ctty", "--wait", program, "hash-password", "ann"])
        .stdin(Stdio::from(terminal.slave))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    drop(command);
    let mut ours = std::fs::File::from(terminal.master);
    let mut shown = Vec::new();
    for (asked, line) in ["password: ", "once more: "].iter().zip(lines) {
        let mut byte = [0];
        while !shown.ends_with(asked.as_bytes()) {
            assert_eq!(ours.read(&mut byte).unwrap(), 1);
            shown.push(byte[0]);
        }
        let shows = || {
            let flags = nix::sys::termios::tcgetattr(&ours).unwrap().local_flags;
            flags.contains(nix::sys::termios::LocalFlags::ECHO)
        };
        until("nothing is shown", || !shows());
        ours.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
    let output = child.wait_with_output().unwrap();
    // The other end of the terminal is closed, which is an error.
    _ = ours.read_to_end(&mut shown);
    (String::from_utf8(shown).unwrap(), output)
}

#[test]
fn a_password_is_asked_for_twice_on_a_terminal_and_not_shown() {
    let (shown, output) = typed(["four", "four"]);
    assert!(!shown.contains("four"), "{shown}");
    let user = String::from_utf8(output.stdout).unwrap();
    let user: toml::Table = user.parse().unwrap();
    assert_eq!(user["user"][0]["name"].as_str(), Some("ann"));
    let (_, output) = typed(["four", "five"]);
    assert!(output.stdout.is_empty() && !output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("two different passwords"), "{said}");
}

#[test]
fn names_are_printed_as_the_configuration_takes_them_or_refused() {
    // With an accent that stands alone, as some systems write umlauts.
    let name = "Jo\u{308}rg M\u{fc}ller";
    let output = String::from_utf8(printed(&[name]).stdout).unwrap();
    let user: toml::Table = output.parse().unwrap();
    assert_eq!(user["user"][0]["name"].as_str(), Some(name));
    for name in ["", "a:b", "a\"b"] {
        let output = printed(&[name]);
        assert!(output.stdout.is_empty() && !output.status.success());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("is no name for a user"), "{said}");
    }
}

#[test]
fn a_password_that_would_never_let_anybody_in_is_refused() {
    let long = |bytes: usize| "é".repeat(bytes / 2) + "\r\n";
    assert!(printed_for(long(512).as_bytes(), &["ann"]).status.success());
    for (input, why) in [
        (long(514).as_bytes(), "more than 512 bytes"),
        (b"\xe9\n", "not UTF-8"),
        (b"\n", "is empty"),
        (b"", "is empty"),
    ] {
        let output = printed_for(input, &["ann"]);
        assert!(output.stdout.is_empty() && !output.status.success());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn a_user_that_the_command_prints_is_let_in_by_a_digest() {
    let printed = String::from_utf8(printed(&["--digest", "dee"]).stdout).unwrap();
    assert!(!printed.contains("four"), "{printed}");
    let simulator = simulator();
    let url = simulator.url(0);
    let camera = format!("[camera.a]\nurl = {url:?}\ndelivery = \"5ms\"\n");
    let watch = "[watch]\nlisten = \"127.0.0.1:0\"\n";
    let program = Program::start(&(printed + watch + &camera));
    let url = program.url("a");
    let describe = |password: &str| {
        let mut client = program.connect();
        let asked = client.ask("DESCRIBE", &url, "");
        let challenge = asked.header("WWW-Authenticate").unwrap();
        assert!(challenge.starts_with("Digest "), "{challenge}");
        let credentials = Credentials {
            user: "dee".to_owned(),
            password: password.to_owned(),
        };
        let mut answering = Answering::best(challenge).unwrap();
        let answer = answering.authorization(&credentials, "DESCRIBE", &url, "c");
        let header = format!("Authorization: {answer}\r\n");
        client.ask("DESCRIBE", &url, &header).status
    };
    until("the camera can be watched", || describe("four") == 200);
    assert_eq!(describe("five"), 401);
    let nothing = &Value::Null;
    assert_eq!(
        status(&program, "GET", "/api/cameras", &basic("dee:four"), nothing),
        200
    );
}

#[test]
fn no_path_leads_out_of_the_cameras() {
    let simulator = simulator();
    let program = program(&simulator);
    for path in [
        "/../../../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/page.js/../../../etc/passwd",
        "/api/cameras/..%2f..%2f..%2fetc%2fpasswd",
        "/api/cameras/%2e%2e/snapshot",
        "/api/cameras/a/live/..%2f..%2fetc/passwd",
        "/api/cameras/a/protected/..%2f..%2fetc%2fpasswd",
        "/api/cameras/a%00/snapshot",
    ] {
        let (head, body) = program.http("GET", path, &basic("bob:two"), "");
        let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
        assert!((400..500).contains(&status), "{path}: {head}");
        assert!(!body.windows(5).any(|five| five == b"root:"), "{path}");
    }
}

#[test]
fn each_request_of_the_document_of_the_interface_is_understood() {
    let simulator = simulator();
    let program = program(&simulator);
    // The document says nothing about cameras, and is for everybody.
    let (status, document) = program.api("GET", "/api/openapi.json", &Value::Null);
    assert_eq!((status, &document["openapi"]), (200, &json!("3.1.0")));
    let paths = document["paths"].as_object().unwrap();
    let mut understood = 0;
    for (path, methods) in paths {
        for method in methods.as_object().unwrap().keys() {
            let path = path.replace("{camera}", "a").replace(['{', '}'], "");
            let method = method.to_uppercase();
            let kind = "content-type: application/json\r\n".to_owned();
            let (head, body) = program.http(&method, &path, &(kind + &basic("bob:two")), "");
            let body = String::from_utf8_lossy(&body);
            assert!(!head.starts_with("HTTP/1.1 405"), "{method} {path}");
            assert!(
                !body.contains("there is nothing at"),
                "{method} {path}: {body}"
            );
            understood += 1;
        }
    }
    assert!(understood >= 20, "{understood}");
}
