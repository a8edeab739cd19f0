//! Certificates that a listener gets by itself.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::support::{
    AcmeServer, Issued, Origin, Proxy, Trust, connected, run_command, until, web,
};

const NAMES: [&str; 2] = ["a.example", "b.example"];

/// A listener over TLS that gets its certificate, beside one that answers the authority.
fn config(acme: &AcmeServer, state: &Path, origin: &Origin) -> String {
    let secure = "[listener.secure]\nbind = \"127.0.0.1:0\"\nmode = \"http\"\npool = \"app\"\n";
    web("", "", &[origin]) + secure + &acme.config("secure", &NAMES, state)
}

/// What the proxy shows at the moment, whoever it is of.
fn shown(proxy: &Proxy, trust: &Trust) -> Option<Vec<u8>> {
    let mut client = trust.begin(connected(proxy.address("secure")), "b.example");
    while client.stream.conn.is_handshaking() {
        let stream = &mut client.stream;
        // One that nobody trusts.
        stream.conn.complete_io(&mut stream.sock).ok()?;
    }
    client.certificate().to_vec().into()
}

#[test]
fn a_listener_gets_its_certificate_and_those_after_it_go_on_with_it() {
    let (acme, origin) = (AcmeServer::start([2000, 4096]), Origin::named("app"));
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("acme");
    let proxy = Proxy::start(&config(&acme, &state, &origin));
    let trust = Trust::of(&acme.authority);
    assert_eq!(shown(&proxy, &trust), None);
    acme.asks(proxy.address("web"));
    until("it has a certificate", || shown(&proxy, &trust).is_some());
    proxy.until_said("a certificate was issued: a.example, b.example, until 4096-01-01");
    let mut client = trust.connect(proxy.address("secure"), "a.example");
    assert_eq!(client.get("/").text(), "app");
    // What is of no order under way goes where the routes say.
    let other = proxy.connect().get("/.well-known/acme-challenge/token-0-0");
    assert_eq!(other.text(), "app");
    assert_eq!(
        acme.counts(),
        (1, "[\"mailto:ops@a.example\"]".to_owned(), 1)
    );
    for entry in std::fs::read_dir(&state).unwrap().map(Result::unwrap) {
        let mode = entry.metadata().unwrap().mode() & 0o777;
        assert_eq!(mode, 0o600, "{:?}", entry.path());
    }
    assert_eq!(std::fs::metadata(&state).unwrap().mode() & 0o777, 0o700);
    let first = shown(&proxy, &trust);
    proxy.ctl("reload");
    assert_eq!(shown(&proxy, &trust), first);
    proxy.upgrade();
    assert_eq!(shown(&proxy, &trust), first);
    proxy.end_successor();
    let next = Proxy::start(&config(&acme, &state, &origin));
    assert_eq!(shown(&next, &trust), first);
    assert_eq!(acme.counts().2, 1, "it is not ordered again");
}

#[test]
fn where_only_tls_is_open_the_authority_is_answered_over_it() {
    let (acme, origin) = (AcmeServer::start([2000, 4096]), Origin::named("app"));
    let directory = tempfile::tempdir().unwrap();
    // A listener of bytes says nothing of protocols (ALPN); the authority is answered all the same.
    for mode in ["http", "tcp"] {
        let state = directory.path().join(mode);
        let old = old_one(&acme, &state);
        let config = format!(
            "[listener.secure]\nbind = \"127.0.0.1:0\"\nmode = \"{mode}\"\npool = \"app\"\n{}\
             challenge = \"tls-alpn-01\"\n[pool.app]\n{}",
            acme.config("secure", &NAMES, &state),
            origin.config("app", "one")
        );
        let proxy = Proxy::start(&config);
        let trust = Trust::of(&acme.authority);
        until("a challenge is to be seen to", || acme.waits());
        let mut client = trust.connect(proxy.address("secure"), "a.example");
        assert_eq!(client.get("/").text(), "app");
        acme.asks(proxy.address("secure"));
        until("it has another certificate", || {
            shown(&proxy, &trust).is_some_and(|it| it != old)
        });
        let mut client = trust.connect(proxy.address("secure"), "a.example");
        assert_eq!(client.get("/").text(), "app");
        // Nobody is answered like this when there is no order.
        let stranger = trust.speaking(&["acme-tls/1"]);
        let mut stranger = stranger.connect(proxy.address("secure"), "a.example");
        let _ = stranger.stream.conn.complete_io(&mut stranger.stream.sock);
        assert_eq!(stranger.stream.conn.alpn_protocol(), None);
        acme.asks_nobody();
    }
}

/// A certificate whose time is almost over, where the proxy keeps its own.
fn old_one(acme: &AcmeServer, state: &Path) -> Vec<u8> {
    let Issued { certificate, key } = acme.authority.issue_until("old", &NAMES, 2030);
    std::fs::create_dir(state).unwrap();
    set_mode(state, 0o700);
    let text = std::fs::read_to_string(&certificate).unwrap();
    let path = state.join("secure.pem");
    std::fs::write(&path, text + &std::fs::read_to_string(&key).unwrap()).unwrap();
    set_mode(&path, 0o600);
    Issued { certificate, key }.der().to_vec()
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn an_old_certificate_serves_until_another_one_takes_its_place() {
    let (acme, origin) = (AcmeServer::start([2000, 4096]), Origin::named("app"));
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("acme");
    let old = old_one(&acme, &state);
    acme.holds(true);
    let proxy = Proxy::start(&config(&acme, &state, &origin));
    let trust = Trust::of(&acme.authority);
    acme.asks(proxy.address("web"));
    until("it has ordered another one", || acme.counts().2 == 1);
    assert_eq!(shown(&proxy, &trust), Some(old.clone()));
    let mut kept = trust.connect(proxy.address("secure"), "a.example");
    assert_eq!(kept.get("/").text(), "app");
    acme.holds(false);
    until("it has another one", || {
        shown(&proxy, &trust).is_some_and(|it| it != old)
    });
    assert_eq!(kept.get("/").text(), "app");
}

#[test]
fn another_authority_is_asked_at_once() {
    let origin = Origin::named("app");
    let [trial, acme] = [(); 2].map(|()| AcmeServer::start([2000, 4096]));
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("acme");
    let proxy = Proxy::start(&config(&trial, &state, &origin));
    let trusts = [&trial, &acme].map(|acme| Trust::of(&acme.authority));
    trial.asks(proxy.address("web"));
    until("it has one for trials", || {
        shown(&proxy, &trusts[0]).is_some()
    });
    acme.asks(proxy.address("web"));
    let [before, after] = [&trial, &acme].map(|acme| acme.config("secure", &NAMES, &state));
    proxy.edit(&before, &after);
    proxy.ctl("reload");
    until("it has one of the other", || {
        shown(&proxy, &trusts[1]).is_some()
    });
    // Whoever begins later sees whose it is.
    let next = Proxy::start(&config(&acme, &state, &origin));
    assert!(shown(&next, &trusts[1]).is_some());
    assert_eq!(acme.counts().2, 1);
}

#[test]
fn nothing_is_ordered_that_could_not_be_kept() {
    let (acme, origin) = (AcmeServer::start([2000, 4096]), Origin::named("app"));
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("acme");
    std::fs::create_dir_all(state.join("probe.new")).unwrap();
    set_mode(&state, 0o700);
    let proxy = Proxy::start(&config(&acme, &state, &origin));
    acme.asks(proxy.address("web"));
    proxy.until_said("acme/probe");
    assert_eq!((acme.counts().0, acme.counts().2), (0, 0));
}

#[test]
fn what_is_old_when_it_is_issued_is_not_ordered_again_and_again() {
    let (acme, origin) = (AcmeServer::start([2000, 2030]), Origin::named("app"));
    let directory = tempfile::tempdir().unwrap();
    let proxy = Proxy::start(&config(&acme, &directory.path().join("acme"), &origin));
    acme.asks(proxy.address("web"));
    proxy.until_said("is to be renewed already");
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(acme.counts().2, 1);
}

#[test]
fn an_authority_that_refuses_changes_nothing() {
    let (acme, origin) = (AcmeServer::start([2000, 4096]), Origin::named("app"));
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("acme");
    let old = old_one(&acme, &state);
    acme.refuses(Some("no such host"));
    let proxy = Proxy::start(&config(&acme, &state, &origin));
    let trust = Trust::of(&acme.authority);
    acme.asks(proxy.address("web"));
    proxy.until_said("the authority does not let us have ");
    assert!(proxy.complaints().contains("no such host"));
    assert_eq!(shown(&proxy, &trust), Some(old));
    let kept = std::fs::read_dir(&state).unwrap().count();
    assert_eq!(kept, 2, "the old certificate and the account");
}

#[test]
fn what_cannot_be_had_is_said_by_check() {
    let acme = AcmeServer::start([2000, 4096]);
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("acme");
    let origin = Origin::named("app");
    let good = config(&acme, &state, &origin);
    let check = |old: &str, new: &str| {
        assert!(good.contains(old), "{good}");
        let path = directory.path().join("proxy.toml");
        std::fs::write(&path, good.replace(old, new)).unwrap();
        run_command(&["check", path.to_str().unwrap()])
    };
    let (is_good, _, errors) = check("secure", "secure");
    assert!(is_good, "{errors}");
    for (old, new, said) in [
        (
            "terms_agreed = true",
            "terms_agreed = false",
            "agree to its terms",
        ),
        ("\"a.example\", ", "\"*.example\", ", "*.example"),
        ("http://127.0.0.1", "http://a.example", "https://"),
        ("mailto:", "post:", "contacts"),
        (
            "[listener.secure.tls.acme]",
            "[listener.secure.tls]\nkey = \"a\"\n[listener.secure.tls.acme]",
            "has its own",
        ),
        (
            "[listener.secure.tls.acme]",
            "[listener.secure.tls]\ncertificate = \"a\"\n[listener.secure.tls.acme]",
            "drop one of both",
        ),
        (
            "[listener.web]\n",
            "[listener.web]\ntls = {}\n",
            "has no certificate",
        ),
        (
            "mode = \"http\"\npool = \"app\"\n\n",
            "mode = \"tcp\"\npool = \"app\"\n\n",
            "take challenge = \"tls-alpn-01\"",
        ),
        ("contacts", "challenge = \"dns-01\"\ncontacts", "dns-01"),
    ] {
        let (is_good, _, errors) = check(old, new);
        assert!(!is_good && errors.contains(said), "{new}: {errors}");
    }
    assert!(!state.exists(), "to check changes nothing");
}
