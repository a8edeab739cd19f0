//! What operators ask and say, by the command line.

use serde_json::Value;

use super::support::{Origin, Proxy, run_command, web};

fn check(text: &str) -> (bool, String, String) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("proxy.toml");
    std::fs::write(&file, text).unwrap();
    run_command(&["check", file.to_str().unwrap()])
}

#[test]
fn help_teaches_every_command() {
    let (done, said, errors) = run_command(&["--help"]);
    assert!(done && errors.is_empty(), "{errors}");
    for command in ["run", "check", "reload", "upgrade", "ctl"] {
        assert!(said.contains(command), "{said}");
        let (done, said, _) = run_command(&[command, "--help"]);
        assert!(done && said.contains("Usage: evenkeel-proxy"), "{said}");
    }
}

#[test]
fn a_configuration_is_checked_without_being_served() {
    let good = "[listener.web]\nbind = \"127.0.0.1:1\"\nmode = \"http\"\npool = \"app\"\n\
                [[pool.app.server]]\nname = \"a\"\naddress = \"127.0.0.1:2\"\n";
    let (done, said, errors) = check(good);
    assert!(
        done && said.ends_with("good; listeners 1, pools 1\n"),
        "{said}{errors}"
    );
    for (old, new, line, cause) in [
        (
            "mode = \"http\"",
            "mode = \"htp\"",
            3,
            "unknown variant `htp`",
        ),
        (
            "pool = \"app\"",
            "pool = \"ap\"",
            4,
            "there is no pool \"ap\"",
        ),
        ("pool = \"app\"", "pol = \"app\"", 4, "unknown field `pol`"),
        ("127.0.0.1:2", "127.0.0.1", 7, "is no address"),
        (
            "mode = \"http\"",
            "mode = \"http\"\nclass = \"video\"",
            4,
            "no class \"video\"",
        ),
        (
            "[[pool.app.server]]",
            "[class.v]\nshare = 0\n[[pool.app.server]]",
            5,
            "share is 0",
        ),
        (
            "127.0.0.1:2\"",
            "127.0.0.1:2\"\n[process]\nworkers = 0",
            8,
            "process.workers",
        ),
    ] {
        let (done, said, errors) = check(&good.replacen(old, new, 1));
        assert!(!done && said.is_empty(), "{said}");
        assert!(errors.contains(&format!("proxy.toml:{line}:")), "{errors}");
        assert!(errors.contains(cause), "{errors}");
        assert!(errors.contains('^'), "the place is shown: {errors}");
    }
    let (done, _, errors) = run_command(&["check", "/nowhere/proxy.toml"]);
    assert!(
        !done && errors.contains("cannot read the configuration /nowhere"),
        "{errors}"
    );
}

#[test]
fn an_address_that_is_taken_is_said() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("proxy.toml");
    let config = web("", "", &[]).replace("127.0.0.1:0", &address);
    let server = "[[pool.app.server]]\nname = \"a\"\naddress = \"127.0.0.1:2\"\n";
    std::fs::write(&file, config + server).unwrap();
    let (done, _, errors) = run_command(&["run", file.to_str().unwrap()]);
    assert!(!done);
    assert!(
        errors.contains(&format!("listener web cannot listen on {address}")),
        "{errors}"
    );
}

#[test]
fn the_state_is_shown_as_text_and_as_json() {
    let origin = Origin::named("x");
    let proxy = Proxy::start(&web("", "", &[&origin]));
    proxy.connect().get("/");
    let info = proxy.ctl("show info");
    for line in [
        "Name: evenkeel-proxy",
        "Nbthread: 2",
        "Maxconn: 500",
        "CumReq: 1",
    ] {
        assert!(info.lines().any(|found| found == line), "{info}");
    }
    let info: Value = serde_json::from_str(&proxy.ctl("show info json")).unwrap();
    assert_eq!(info["CumReq"], 1);
    let stat = proxy.ctl("show stat");
    assert!(stat.starts_with("# pxname,svname,qcur,"), "{stat}");
    let rows: Vec<&str> = stat.lines().collect();
    assert!(rows[1].starts_with("web,FRONTEND,"), "{stat}");
    assert!(
        rows[2].starts_with("app,s0,") && rows[2].contains(",no check,"),
        "{stat}"
    );
    assert!(rows[3].starts_with("app,BACKEND,"), "{stat}");
    let backend = proxy.row("app/BACKEND");
    assert_eq!(
        (&backend["type"], &backend["algo"]),
        (&1.into(), &"roundrobin".into())
    );
    assert_eq!(proxy.row("web/FRONTEND")["mode"], "http");
    assert_eq!(proxy.row("app/s0")["type"], 2);
    for row in &rows {
        assert_eq!(
            row.matches(',').count(),
            rows[0].matches(',').count(),
            "{row}"
        );
    }
    let state = proxy.ctl("show servers state app");
    let (first, rest) = state.split_once('\n').unwrap();
    assert_eq!(first, "1");
    assert!(
        rest.starts_with("# be_id be_name srv_id srv_name"),
        "{state}"
    );
    let address = origin.address;
    assert!(
        rest.contains(&format!("\n1 app 1 s0 {address} 2 0 1 1 ")),
        "{state}"
    );
    // Several commands in one line, each with its answer.
    let both = proxy.ctl("get weight app/s0; show info");
    assert!(both.starts_with("1 (initial 1)\n\nName: "), "{both}");
}

#[test]
fn what_cannot_be_done_is_an_error_that_says_what_can() {
    let origin = Origin::named("x");
    let proxy = Proxy::start(&web("", "", &[&origin]));
    for (command, said) in [
        ("show nothing", "`help` lists them"),
        ("set server app/s0 state gone", "ready, drain and maint"),
        ("set server app/s9 state ready", "it has s0"),
        ("set server up/s0 state ready", "there are app"),
        ("set weight app/s0 257", "0 to 256"),
        ("set weight app/s0 x%", "0 to 256"),
        ("get weight s0", "POOL/SERVER"),
        ("show servers state up", "there are app"),
        ("show servers state up json", "{\"error\":"),
    ] {
        let (done, said_well, errors) = proxy.try_ctl(command);
        assert!(!done && said_well.is_empty(), "{command}: {said_well}");
        assert!(errors.contains(said), "{command}: {errors}");
    }
    let answer = proxy.ctl("help");
    assert!(answer.contains("show stat"), "{answer}");
    let (done, _, errors) = run_command(&["ctl", "--socket", "/nowhere/socket", "help"]);
    assert!(!done && errors.contains("does it run"), "{errors}");
}

#[test]
fn the_socket_is_its_owners_alone_and_goes_with_the_proxy() {
    use std::os::unix::fs::PermissionsExt;
    let origin = Origin::named("x");
    let mut proxy = Proxy::start(&web("", "", &[&origin]));
    let socket = proxy.path("admin");
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    proxy.signal("TERM");
    assert!(proxy.ended().success());
    assert!(!socket.exists());
}

#[test]
fn health_is_said_by_operators_until_checks_say_otherwise() {
    let origin = Origin::named("x");
    let proxy = Proxy::start(&web("", "", &[&origin]));
    proxy.ctl("set server app/s0 health down");
    assert_eq!(proxy.row("app/s0")["status"], "DOWN");
    let answer = proxy.connect().get("/");
    assert_eq!(answer.status, 503, "{}", answer.text());
    super::support::until("the operator is told what to do", || {
        proxy.complaints().contains("show servers state")
    });
    proxy.ctl("set server app/s0 health up");
    assert_eq!(proxy.connect().get("/").text(), "x");
}
