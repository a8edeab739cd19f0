//! Configurations of HAProxy, by the command line.

use std::os::unix::fs::PermissionsExt;

use super::support::{Authority, Origin, Proxy, Trust, run_command};

fn converted(text: &str, more: &[&str]) -> (bool, String, String) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("haproxy.cfg");
    std::fs::write(&file, text).unwrap();
    let mut arguments = vec!["convert", file.to_str().unwrap()];
    arguments.extend(more);
    run_command(&arguments)
}

#[test]
fn a_configuration_of_haproxy_is_served() {
    let (app, api) = (Origin::named("app"), Origin::named("api"));
    let text = format!(
        "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 5s\n\
         frontend web\n bind 127.0.0.1:0\n use_backend api if {{ path_beg /api }} !METH_POST\n \
         default_backend app\n\
         backend app\n server one {}\nbackend api\n server one {} check inter 60s\n",
        app.address, api.address
    );
    let (done, toml, errors) = converted(&text, &["--quiet"]);
    assert!(done && errors.is_empty(), "{errors}");
    let proxy = Proxy::start(&toml);
    assert_eq!(proxy.connect().get("/").text(), "app");
    assert_eq!(proxy.connect().get("/apiary").text(), "api");
    let mut client = proxy.connect();
    client.send("POST /api HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.answer().text(), "app");
}

#[test]
fn nothing_is_printed_of_what_is_not_whole_unless_that_is_asked_for() {
    let text = "listen a\n bind 127.0.0.1:1\n server s 127.0.0.1:2 on-fire\n";
    let (done, toml, errors) = converted(text, &[]);
    assert!(!done && toml.is_empty(), "{toml}");
    assert!(
        errors.contains("haproxy.cfg:3: error: on-fire of a server"),
        "{errors}"
    );
    let (done, toml, _) = converted(text, &["--lossy"]);
    assert!(!done, "the exit code says it");
    assert!(toml.contains("# NOT CONVERTED: line 3: on-fire"), "{toml}");
    assert!(toml.contains("[[pool.a.server]]"), "{toml}");
    let (done, _, errors) = run_command(&["convert", "/nowhere/haproxy.cfg"]);
    assert!(!done && errors.contains("cannot read /nowhere"), "{errors}");
}

#[test]
fn tls_rules_and_backups_are_converted_and_served() {
    let authority = Authority::new("ours");
    let issued = authority.issue("web", &["a.example"]);
    let both = authority.path("both.pem");
    let mut pem = std::fs::read(&issued.certificate).unwrap();
    pem.extend(std::fs::read(&issued.key).unwrap());
    std::fs::write(&both, pem).unwrap();
    std::fs::set_permissions(&both, std::fs::Permissions::from_mode(0o600)).unwrap();
    let spare = Origin::named("spare");
    let text = format!(
        "global\n crt-base {}\ndefaults\n mode http\n timeout client 5s\n timeout server 5s\n \
         timeout connect 5s\n\
         frontend web\n bind 127.0.0.1:0\n bind 127.0.0.1:0 ssl crt both.pem\n \
         option forwardfor\n http-request redirect scheme https code 301 unless {{ ssl_fc }}\n \
         http-request deny if {{ path /no }}\n http-request set-header X-Mine \"{{%[src]}}\"\n \
         http-response set-header X-Theirs yes\n default_backend app\n\
         backend app\n server gone 127.0.0.1:1 disabled\n server spare {} backup\n",
        both.parent().unwrap().display(),
        spare.address
    );
    let (done, toml, errors) = converted(&text, &["--quiet"]);
    assert!(done, "{errors}");
    let proxy = Proxy::start(&toml);
    let moved = proxy.connect().get("/x?y");
    assert_eq!(moved.status, 301);
    assert_eq!(moved.header("location"), Some("https://a.example/x?y"));
    let trust = Trust::of(&authority);
    let mut client = trust.connect(proxy.address("web-2"), "a.example");
    let answer = client.get("/");
    assert_eq!(
        (answer.text(), answer.header("x-theirs")),
        ("spare", Some("yes"))
    );
    let asked = &spare.asked()[0];
    assert_eq!(asked.header("x-mine").as_deref(), Some("{127.0.0.1}"));
    assert_eq!(client.get("/no").status, 403);
}
