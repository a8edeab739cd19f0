//! A protected server as its operator meets it: tokens, signals, and a supervisor.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::LIMIT;
use crate::support::certificates::Authority;
use crate::support::program::{Server, run_command, wait};

fn shown(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Makes a token and returns the file with its secret.
fn new_token(directory: &Path, name: &str, allow: &str) -> String {
    let secret = new_token_in(&directory.join("tokens"), name, allow);
    let file = directory.join(name);
    servers_common::testing::write_private(&file, &secret);
    shown(&file).to_owned()
}

/// Adds a token to a file, and returns its secret.
fn new_token_in(tokens: &Path, name: &str, allow: &str) -> String {
    let made = [
        "token",
        "new",
        name,
        "--allow",
        allow,
        "--add-to",
        shown(tokens),
    ];
    let (done, secret, errors) = run_command(&made);
    assert!(done, "{errors}");
    assert!(!fs::read_to_string(tokens).unwrap().contains(secret.trim()));
    secret
}

#[test]
fn tokens_are_made_used_and_taken_away() {
    let directory = tempfile::tempdir().unwrap();
    let operator = new_token(directory.path(), "operator", "append,read");
    let tokens = directory.path().join("tokens");
    assert_eq!(
        tokens.metadata().unwrap().permissions().mode() & 0o777,
        0o600
    );
    let log = directory.path().join("log");
    let mut server = Server::start(&log, &["--tokens", shown(&tokens)]);
    let address = server.address.to_string();
    let appends =
        |token: &str| run_command(&["append", "--server", &address, "--token-file", token, "x"]);
    assert!(appends(&operator).0);
    let (done, _, errors) = run_command(&["append", "--server", &address, "x"]);
    assert!(!done && errors.contains("--token-file"), "{errors}");
    assert!(run_command(&["ping", "--server", &address, "--count", "1"]).0);
    // By the variable, too.
    let by_variable = Command::new(env!("CARGO_BIN_EXE_txlog"))
        .args(["read", "--server", &address])
        .env("TXLOG_TOKEN", fs::read_to_string(&operator).unwrap().trim())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&by_variable.stdout), "1\tx\n");
    // A second one is good from the next SIGHUP on, and the first one no longer.
    fs::write(&tokens, "").unwrap();
    let second = new_token(directory.path(), "second", "append");
    let (done, _, errors) = appends(&second);
    assert!(
        !done && errors.contains("does not know this token"),
        "{errors}"
    );
    server.signal("HUP");
    let began = Instant::now();
    while !appends(&second).0 {
        assert!(began.elapsed() < LIMIT, "the new token is never known");
    }
    assert!(!appends(&operator).0);
    // A file that is wrong is said to be, and changes nothing.
    fs::write(&tokens, "second append txl_misplaced").unwrap();
    server.signal("HUP");
    assert!(appends(&second).0);
    server.signal("TERM");
    assert!(server.ended().success());
    let complaints = server.end();
    assert!(
        complaints.contains("a login from 127.0.0.1 failed"),
        "{complaints}"
    );
    assert!(complaints.contains("read 1 tokens"), "{complaints}");
    assert!(complaints.contains("NOTHING HAS CHANGED"), "{complaints}");
    assert!(!complaints.contains("txl_"), "{complaints}");
}

/// A named pipe to which nobody writes is like a file whose disk hangs.
#[test]
fn settings_that_do_not_come_keep_no_token_from_being_read() {
    let directory = tempfile::tempdir().unwrap();
    new_token(directory.path(), "first", "append");
    let (log, logs) = (directory.path().join("log"), directory.path().join("logs"));
    let tokens = directory.path().join("tokens");
    let options = ["--logs", shown(&logs), "--tokens", shown(&tokens)];
    let mut server = Server::start(&log, &options);
    let settings = logs.join("txlog.toml");
    let made = Command::new("mkfifo").arg(&settings).status().unwrap();
    assert!(made.success());
    server.signal("HUP");
    let said = "the earlier settings of single logs hold on: the file could not be read within 5 s";
    let began = Instant::now();
    while !server.said().contains(said) {
        assert!(began.elapsed() < LIMIT, "{}", server.said());
        sleep(Duration::from_millis(20));
    }
    let second = new_token(directory.path(), "second", "append");
    server.signal("HUP");
    let address = server.address.to_string();
    let append = ["append", "--server", &address, "--token-file", &second, "x"];
    while !run_command(&append).0 {
        assert!(began.elapsed() < LIMIT, "the new token is never known");
    }
    server.signal("TERM");
    assert!(server.ended().success(), "{}", server.end());
}

#[test]
fn a_token_that_cannot_be_added_leaves_the_file_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    new_token(directory.path(), "one", "append");
    let tokens = directory.path().join("tokens");
    let add = |name: &str, log: &str| {
        let file = shown(&tokens);
        let start = ["token", "new", name, "--allow", "read", "--log", log];
        run_command(&[&start[..], &["--add-to", file]].concat())
    };
    let set_mode = |mode| fs::set_permissions(&tokens, fs::Permissions::from_mode(mode)).unwrap();
    let first = fs::read_to_string(&tokens).unwrap();
    for (name, log, mode, said) in [
        ("one", "a", 0o600, "an earlier line"),
        ("two", "../x", 0o600, "no log has such a name"),
        ("two", "", 0o644, "chmod 600"),
    ] {
        set_mode(mode);
        let (done, secret, errors) = add(name, log);
        assert!(!done && errors.contains(said), "{errors}");
        assert_eq!(secret, "");
        assert_eq!(fs::read_to_string(&tokens).unwrap(), first, "{said}");
    }
    // A last line without its end is not glued to the new one; the mode stays.
    fs::write(&tokens, first.trim_end()).unwrap();
    set_mode(0o640);
    let (done, secret, errors) = add("two", "a");
    assert!(done && secret.starts_with("txl_"), "{errors}");
    let both = fs::read_to_string(&tokens).unwrap();
    assert!(both.starts_with(&format!("{first}two read ")), "{both}");
    let mode = tokens.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    // No draft is left, and what a link leads to is changed.
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 2);
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&tokens, &link).unwrap();
    new_token_in(&link, "three", "read");
    assert!(link.is_symlink());
    let all = fs::read_to_string(&tokens).unwrap();
    assert!(all.starts_with(&format!("{both}three read ")), "{all}");
}

#[test]
fn a_token_for_some_logs_creates_and_lists_no_others() {
    let directory = tempfile::tempdir().unwrap();
    let operator = new_token(directory.path(), "operator", "append,read,admin");
    let writer = new_token(directory.path(), "writer", "append");
    let tokens = directory.path().join("tokens");
    let some = ["--log", ".", "--log", "a"];
    let mut made = vec![
        "token",
        "new",
        "some",
        "--allow",
        "admin",
        "--add-to",
        shown(&tokens),
    ];
    made.extend(some);
    let (_, secret, _) = run_command(&made);
    let some = directory.path().join("some");
    servers_common::testing::write_private(&some, &secret);
    let logs = directory.path().join("logs");
    let options = [
        "--tokens",
        shown(&tokens),
        "--logs",
        shown(&logs),
        "--create-logs",
    ];
    let server = Server::start(&directory.path().join("log"), &options);
    let address = server.address.to_string();
    let by = |token: &str, arguments: &[&str]| {
        let mut all = vec![arguments[0], "--server", &address, "--token-file", token];
        all.extend(&arguments[1..]);
        run_command(&all)
    };
    for log in ["a", "b"] {
        let create = ["append", "--log", log, "--create", "x"];
        let (done, _, errors) = by(&writer, &create);
        assert!(!done && errors.contains("`admin`"), "{errors}");
        assert!(by(&operator, &create).0);
        assert!(by(&writer, &create).0, "it is there by now");
    }
    let listed = |token: &str| {
        let (done, said, errors) = by(token, &["logs"]);
        assert!(done, "{errors}");
        let names = said
            .lines()
            .map(|line| line.split('\t').next().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(listed(&operator), ["", "a", "b"]);
    assert_eq!(listed(shown(&some)), ["", "a"]);
    assert!(!by(&writer, &["logs"]).0);
}

#[test]
fn what_is_not_safe_is_refused_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let operator = new_token(directory.path(), "operator", "append");
    let (tokens, log) = (
        directory.path().join("tokens"),
        directory.path().join("log"),
    );
    let serve = |options: &[&str]| {
        let mut all = vec!["serve", "--dir", shown(&log), "--listen"];
        all.extend(options);
        let (done, _, errors) = run_command(&all);
        assert!(!done);
        errors
    };
    for (options, said) in [
        (&["0.0.0.0:0"][..], "--tls-cert, --tls-key and --tokens"),
        (
            &["0.0.0.0:0", "--tokens", shown(&tokens)],
            "--insecure-no-tls",
        ),
        (&["0.0.0.0:0", "--insecure-no-tls"], "--insecure-no-tokens"),
        (
            &["127.0.0.1:0", "--admin", "0.0.0.0:0"],
            "a token is needed",
        ),
    ] {
        let errors = serve(options);
        assert!(errors.contains(said), "{errors}");
    }
    for file in [shown(&tokens), &operator] {
        let open = fs::Permissions::from_mode(0o644);
        fs::set_permissions(file, open).unwrap();
    }
    let errors = serve(&["127.0.0.1:0", "--tokens", shown(&tokens)]);
    assert!(errors.contains("chmod 600"), "{errors}");
    let (done, _, errors) = run_command(&["ping", "--token-file", &operator]);
    assert!(!done && errors.contains("chmod 600"), "{errors}");
    let wrong = ["token", "new", "x", "--allow", "write"];
    let (done, _, errors) = run_command(&wrong);
    assert!(
        !done && errors.contains("append, read and admin"),
        "{errors}"
    );
}

#[test]
fn commands_speak_tls() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new("ours");
    let issued = authority.issue("server", &["127.0.0.1"]);
    let client = authority.issue("client", &["somebody"]);
    let ca = authority.ca();
    let options = [
        "--tls-cert",
        shown(&issued.certificate),
        "--tls-key",
        shown(&issued.key),
        "--tls-client-ca",
        shown(&ca),
    ];
    let server = Server::start(directory.path(), &options);
    let address = server.address.to_string();
    let run = |command: &[&str], own: bool| {
        let mut all = vec![command[0], "--server", &address, "--tls-ca", shown(&ca)];
        if own {
            all.extend(["--tls-cert", shown(&client.certificate)]);
            all.extend(["--tls-key", shown(&client.key)]);
        }
        all.extend(&command[1..]);
        run_command(&all)
    };
    assert_eq!(
        run(&["append", "one"], true),
        (true, "1\n".to_owned(), String::new())
    );
    assert_eq!(run(&["read"], true).1, "1\tone\n");
    assert!(run(&["ping", "--count", "1"], true).0);
    let (done, _, errors) = run(&["ping", "--count", "1"], false);
    assert!(
        !done && errors.contains("--tls-cert and --tls-key"),
        "{errors}"
    );
    let (done, _, errors) = run_command(&["ping", "--server", &address, "--count", "1"]);
    assert!(!done && errors.contains("--tls-ca"), "{errors}");
}

/// The next message to a supervisor that has this in it.
fn told(socket: &UnixDatagram, part: &str) -> String {
    let mut buffer = [0; 1_000];
    loop {
        let count = socket.recv(&mut buffer).expect("a message in time");
        let text = String::from_utf8_lossy(&buffer[..count]).into_owned();
        if text.contains(part) {
            return text;
        }
        assert!(
            text.contains("WATCHDOG=1"),
            "{part} was to come, and not {text}"
        );
    }
}

#[test]
fn a_supervisor_is_told_when_clients_are_served_and_when_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    // Taken while the server starts; what it is told then has to be true.
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port()
    };
    let address = format!("127.0.0.1:{port}");
    let log = directory.path().join("log");
    let mut child = Command::new(env!("CARGO_BIN_EXE_txlog"))
        .args(["serve", "--dir", shown(&log), "--listen", &address])
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "50000")
        .env_remove("WATCHDOG_PID")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let ready = told(&socket, "READY=1");
    assert!(
        ready.contains(&format!("STATUS=listening on {address}")),
        "{ready}"
    );
    let (done, _, errors) = run_command(&["ping", "--server", &address, "--count", "1"]);
    assert!(done, "{errors}");
    for _ in 0..3 {
        told(&socket, "WATCHDOG=1");
    }
    let signal = |name: &str| {
        let pid = child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", name, &pid])
                .status()
                .unwrap()
                .success()
        );
    };
    signal("HUP");
    told(&socket, "RELOADING=1\nMONOTONIC_USEC=");
    told(&socket, "READY=1");
    signal("TERM");
    told(&socket, "STOPPING=1");
    assert!(wait(&mut child).success());
}
