//! Certificates that end soon: who is told, and where it is shown.

use serde_json::Value;

use super::support::{Authority, Client, Issued, Origin, Proxy, run_command, until, web};

/// Longer than until the year 2099, and not as long as until 4096.
const WARNING: &str = "expiry_warning = \"40000d\"";

const NAMES: [&str; 1] = ["a.example"];

/// Certificates with various ends.
struct Issues {
    authority: Authority,
    good: Issued,
    soon: Issued,
    late: Issued,
    old: Issued,
    /// The pool's own.
    own: Issued,
}

impl Issues {
    fn new() -> Self {
        let authority = Authority::new("ours");
        let until = |name, year| authority.issue_until(name, &NAMES, year);
        Self {
            good: until("good", 4096),
            soon: until("soon", 2099),
            late: until("late", 2099),
            old: until("old", 2001),
            own: until("own", 2099),
            authority,
        }
    }

    /// A listener for each, of which operators want to know of two in good time.
    fn config(&self, origin: &Origin) -> String {
        let own = self.own.config("certificate");
        let mut config = web("", &format!("[pool.app.tls]\n{own}{WARNING}\n"), &[origin]);
        for (name, issued, more) in [
            ("good", &self.good, WARNING),
            ("soon", &self.soon, WARNING),
            ("late", &self.late, ""),
            ("old", &self.old, ""),
        ] {
            config += &format!(
                "[listener.{name}]\nbind = \"127.0.0.1:0\"\nmode = \"http\"\npool = \"app\"\n\
                 [listener.{name}.tls]\n{}{more}\n",
                issued.config("certificate")
            );
        }
        config
    }
}

#[test]
fn operators_are_told_of_certificates_that_end_soon() {
    let (all, origin) = (Issues::new(), Origin::named("app"));
    let proxy = Proxy::start(&all.config(&origin));
    let told = |whose: &str| {
        let said = proxy.complaints();
        let begin = format!("{whose}: its certificate ");
        let lines = said.lines().filter(|line| line.contains(&begin));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let file = all.soon.certificate.display();
    proxy.until_said(&format!(
        " days: a.example, until 2099-01-01T00:00:00Z; put a new one into {file} and reload"
    ));
    proxy.until_said("listener soon: its certificate expires in ");
    proxy.until_said("listener old: its certificate has expired: a.example, until 2001-01-01");
    proxy.until_said("pool app: its certificate expires in ");
    proxy.ctl("reload");
    until("it is told again", || told("listener soon").len() > 2);
    let said = told("listener soon");
    assert_eq!(said.len(), 3, "it was read, and told of twice: {said:?}");
    for whose in ["listener good", "listener late"] {
        assert_eq!(told(whose).len(), 1, "it was read: {:?}", told(whose));
    }
    // One in its place is not told of.
    all.authority.issue("soon", &NAMES);
    proxy.ctl("reload");
    until("it is read", || told("listener soon").len() > 3);
    let said = told("listener soon");
    assert!(
        said.len() == 4 && said[3].contains("until 4096-"),
        "{said:?}"
    );
}

#[test]
fn operators_see_all_certificates_with_their_ends() {
    let (all, origin) = (Issues::new(), Origin::named("app"));
    let proxy = Proxy::start_with("admin_page = \"127.0.0.1:0\"", &all.config(&origin));
    let shown = proxy.ctl("show ssl cert json");
    let rows: Vec<Value> = serde_json::from_str(&shown).unwrap();
    assert_eq!(rows.len(), 5, "{shown}");
    let row = |whose: &str, name: &str| rows.iter().find(|row| row[whose] == name).unwrap();
    assert_eq!(row("listener", "good")["until"], "4096-01-01T00:00:00Z");
    assert_eq!(row("listener", "soon")["names"], "a.example");
    assert!(row("listener", "old")["left_s"].as_i64().unwrap() < 0);
    let own = all.own.certificate.to_str().unwrap();
    assert_eq!(row("pool", "app")["file"], own);
    // A check of the file says it, too.
    let path = proxy.path("checked.toml");
    std::fs::write(&path, all.config(&origin)).unwrap();
    let (is_good, _, said) = run_command(&["check", path.to_str().unwrap()]);
    let old = "warning: listener old: its certificate has expired";
    assert!(
        is_good && said.contains(old) && !said.contains("listener good"),
        "{said}"
    );

    let mut client = Client::connect(proxy.address("(page)"));
    client.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let answer = client.answer();
    for (labels, file, end) in [
        ("listener=\"old\",pool=\"\"", &all.old, "978307200.0"),
        ("listener=\"\",pool=\"app\"", &all.own, "4070908800.0"),
    ] {
        let metric = format!(
            "proxy_certificate_expiry_timestamp_seconds{{{labels},file={:?}}} {end}\n",
            file.certificate
        );
        assert!(answer.text().contains(&metric), "{metric}{}", answer.text());
    }
}
