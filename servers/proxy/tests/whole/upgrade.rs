//! Another process takes over, and no client notices.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::support::{Authority, Client, LIMIT, Origin, Proxy, Trust, connected, two, until, web};

/// Asks without end, until it is told to stop, and counts the answers.
struct Load<'a> {
    stops: &'a AtomicBool,
    answers: AtomicUsize,
}

impl<'a> Load<'a> {
    fn new(stops: &'a AtomicBool) -> Self {
        Self {
            stops,
            answers: AtomicUsize::new(0),
        }
    }

    /// Uses a connection for as long as it is kept.
    fn kept<S: Read + Write>(&self, connect: impl Fn() -> Client<S>) {
        while !self.stops.load(Ordering::Relaxed) {
            let mut client = connect();
            while !self.stops.load(Ordering::Relaxed) {
                let answer = client.get("/");
                assert_eq!((answer.status, answer.text()), (200, "x"));
                self.answers.fetch_add(1, Ordering::Relaxed);
                if answer.header("connection") == Some("close") {
                    break;
                }
            }
        }
    }

    /// Uses a connection for each request.
    fn single<S: Read + Write>(&self, connect: impl Fn() -> Client<S>) {
        while !self.stops.load(Ordering::Relaxed) {
            let answer = connect().get("/");
            assert_eq!((answer.status, answer.text()), (200, "x"));
            self.answers.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Asks as an operator.
    fn operator(&self, socket: &Path) {
        while !self.stops.load(Ordering::Relaxed) {
            let mut client = unix(socket);
            client.send("show info\n");
            let answer = client.rest();
            assert!(answer.starts_with(b"Name: evenkeel-proxy\n"), "{answer:?}");
            self.answers.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn until_more(&self) {
        let before = self.answers.load(Ordering::Relaxed);
        until("more is answered", || {
            self.stops.load(Ordering::Relaxed) || self.answers.load(Ordering::Relaxed) > before + 5
        });
    }
}

/// Has the others end if a test fails, which waits for them.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn unix(path: &Path) -> Client<UnixStream> {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    Client::over(stream)
}

/// Listeners of all sorts: `web`, `tls`, `raw`, and one on a Unix socket.
fn everything(origin: &Origin, authority: &Authority, socket: &Path, more: &str) -> String {
    let certificate = authority.issue("web", &["a.example"]).config("certificate");
    // One connection says nothing until another process has taken over.
    web(&format!("timeouts.head = \"1m\"\n{more}"), "", &[origin])
        + &format!(
            "[listener.tls]\nbind = \"127.0.0.1:0\"\nmode = \"http\"\npool = \"app\"\n{more}\n\
             [listener.tls.tls]\n{certificate}\n\
             [listener.raw]\nbind = \"127.0.0.1:0\"\nmode = \"tcp\"\npool = \"app\"\n{more}\n\
             [listener.unix]\nbind = \"unix:{}\"\nmode = \"http\"\npool = \"app\"\n",
            socket.display()
        )
}

/// Twice, so that a process that has taken over is one that can be taken over from.
fn nothing_is_lost(more: &str, workers: [&str; 3], sockets: [usize; 3]) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("unix");
    let (origin, authority) = (Origin::named("x"), Authority::new("a"));
    let config = everything(&origin, &authority, &socket, more);
    // Longer than anything is waited for here.
    let mut proxy = Proxy::start_with("drain = \"5m\"", &config);
    let trust = Trust::of(&authority);
    let stops = AtomicBool::new(false);
    let loads: [Load<'_>; 7] = std::array::from_fn(|_| Load::new(&stops));
    let [kept, single, tls_kept, tls, raw, over_unix, operator] = &loads;
    let at = |name: &str| proxy.address(name).to_owned();
    let (web, secure, plain) = (at("web"), at("tls"), at("raw"));
    let (admin, started) = (proxy.path("admin"), proxy.serving());
    thread::scope(|scope| {
        let stop = Stop(&stops);
        scope.spawn(|| kept.kept(|| Client::connect(&web)));
        scope.spawn(|| single.single(|| Client::connect(&web)));
        scope.spawn(|| tls_kept.kept(|| trust.connect(&secure, "a.example")));
        scope.spawn(|| tls.single(|| trust.connect(&secure, "a.example")));
        scope.spawn(|| raw.single(|| Client::connect(&plain)));
        scope.spawn(|| over_unix.single(|| unix(&socket)));
        scope.spawn(|| operator.operator(&admin));
        assert_eq!(sockets_at(&web), sockets[0]);
        for (after, sockets) in workers.iter().zip(sockets).skip(1) {
            // Open, of which nothing has been sent, and in use.
            let mut silent = Client::connect(&web);
            let mut open = Client::connect(&plain);
            assert_eq!(open.get("/").text(), "x");
            loads.iter().for_each(Load::until_more);
            let before = proxy.serving();
            proxy.edit(&workers_of(&proxy), after);
            proxy.upgrade();
            assert_eq!(sockets_at(&web), sockets);
            loads.iter().for_each(Load::until_more);
            assert_eq!(open.get("/").text(), "x", "by process {before}");
            let answer = silent.get("/");
            assert_eq!(answer.text(), "x", "the same");
            assert_eq!(answer.header("connection"), Some("close"));
            drop(open);
            if before == started {
                assert!(proxy.ended().success());
            }
        }
        drop(stop);
    });
    let pid = proxy.serving();
    let info = proxy.ctl("show info");
    assert!(info.contains(&format!("Pid: {pid}\n")), "{info}");
    assert!(socket.exists() && admin.exists());
    proxy.end_successor();
    assert!(!socket.exists() && !admin.exists());
    let complaints = proxy.complaints();
    assert!(!complaints.contains("cut off"), "{complaints}");
}

/// How many sockets listen at an address.
fn sockets_at(address: &str) -> usize {
    let port: u16 = address.rsplit(':').next().unwrap().parse().unwrap();
    let listens = |line: &&str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        fields[1].ends_with(&format!(":{port:04X}")) && fields[3] == "0A"
    };
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    table.lines().skip(1).filter(listens).count()
}

/// The line of the configuration.
fn workers_of(proxy: &Proxy) -> String {
    let text = std::fs::read_to_string(proxy.path("proxy.toml")).unwrap();
    let line = text.lines().find(|line| line.starts_with("workers ="));
    line.unwrap().to_owned()
}

#[test]
fn another_process_takes_over_and_nothing_is_lost() {
    nothing_is_lost("", ["workers = 2"; 3], [1; 3]);
}

#[test]
fn listeners_of_each_worker_pass_on_to_more_workers_and_to_fewer() {
    let workers = ["workers = 2", "workers = 3", "workers = 1"];
    // None is closed, as connections may wait in each.
    nothing_is_lost("per_worker = true\n", workers, [2, 3, 3]);
}

#[test]
fn who_waits_in_the_backlog_is_served_by_the_next_process() {
    let (origin, other) = (Origin::named("x"), Origin::named("y"));
    let more = "connections_per_client_max = 1000\n";
    let proxy = Proxy::start(&web(more, "", &[&origin]));
    // All places are taken, so that these are not accepted.
    let taken: Vec<TcpStream> = (0..500).map(|_| connected(proxy.address("web"))).collect();
    until("all are taken", || {
        proxy.ctl("show info").contains("CurrConns: 500\n")
    });
    let mut waiting: Vec<Client> = (0..5).map(|_| proxy.connect()).collect();
    for client in &mut waiting {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    let server = |origin: &Origin| format!("address = \"{}\"", origin.address);
    proxy.edit(&server(&origin), &server(&other));
    proxy.upgrade();
    // One of them may have been accepted, and waits for a place.
    let mut waiting: Vec<Client> = waiting.into_iter().rev().collect();
    for client in &mut waiting[..4] {
        assert_eq!(client.answer().text(), "y");
    }
    drop(taken);
    let last = waiting[4].answer();
    assert!(["x", "y"].contains(&last.text()));
    proxy.end_successor();
}

#[test]
fn the_next_process_knows_what_checks_and_operators_said() {
    let origins = [Origin::named("a"), Origin::named("b"), Origin::named("c")];
    let check = "check = { kind = \"tcp\", interval = \"1h\" }\n";
    let config = web("", check, &origins.each_ref());
    let proxy = Proxy::start(&config);
    proxy.ctl("set server app/s0 state drain");
    proxy.ctl("set server app/s1 health down");
    proxy.ctl("set server app/s2 weight 7");
    proxy.ctl("disable frontend web");
    // Another address is another server.
    let moved = Origin::named("d");
    let more = moved.config("app", "s3");
    proxy.edit("[pool.app]", "[class.new]\n[pool.app]");
    let text = std::fs::read_to_string(proxy.path("proxy.toml")).unwrap();
    std::fs::write(proxy.path("proxy.toml"), text + &more).unwrap();
    proxy.upgrade();
    for (server, status, weight) in [
        ("app/s0", "DRAIN", 1),
        ("app/s1", "DOWN", 1),
        ("app/s2", "UP", 7),
        ("app/s3", "UP", 1),
    ] {
        let row = proxy.row(server);
        assert_eq!(
            (&row["status"], &row["weight"]),
            (&status.into(), &weight.into())
        );
    }
    assert_eq!(proxy.connect().get("/").status, 503, "switched off");
    proxy.ctl("enable frontend web");
    assert_eq!(proxy.connect().get("/").status, 200);
    assert!(proxy.ctl("show cpu").contains("new"), "a class that is new");
    proxy.end_successor();
}

#[test]
fn what_the_next_process_does_not_want_is_closed_and_what_is_new_is_opened() {
    let origin = Origin::named("x");
    let directory = tempfile::tempdir().unwrap();
    let (old, new) = (directory.path().join("old"), directory.path().join("new"));
    let second = |path: &Path| {
        let path = path.display();
        format!("[listener.b]\nbind = \"unix:{path}\"\nmode = \"http\"\npool = \"app\"\n")
    };
    let config = web("", "", &[&origin]);
    let mut proxy = Proxy::start(&(config.clone() + &second(&old)));
    assert_eq!(unix(&old).get("/").text(), "x");
    proxy.rewrite(&(config + &second(&new)));
    proxy.upgrade();
    assert_eq!(unix(&new).get("/").text(), "x");
    assert_eq!(proxy.connect().get("/").text(), "x");
    assert!(proxy.ended().success());
    assert!(!old.exists() && new.exists());
    proxy.end_successor();
}

#[test]
fn clients_of_http_2_are_told_at_once_to_connect_anew() {
    let origin = Origin::named("x");
    let config = web("", "", &[&origin]);
    // Longer than the test may take.
    let proxy = Proxy::start_with("drain = \"10m\"", &config);
    two::run(async {
        let (mut client, connection) = two::TwoClient::watched(proxy.address("web")).await;
        assert_eq!(client.get("/").await.text(), "x");
        proxy.upgrade();
        // It would go on as long as its client, which has no request.
        drop(connection.await);
        drop(client);
        let mut client = two::TwoClient::connect(proxy.address("web")).await;
        assert_eq!(client.get("/").await.text(), "x");
    });
    proxy.end_successor();
}

/// Asks for something, and says whether a session was resumed for it.
fn resumes(proxy: &Proxy, trust: &Trust) -> bool {
    let mut client = trust.connect(proxy.address("web"), "a.example");
    assert_eq!(client.get("/").text(), "x");
    client.is_resumed()
}

#[test]
fn sessions_of_tls_are_resumed_with_the_next_process_unless_it_lets_others_in() {
    let (origin, authority) = (Origin::named("x"), Authority::new("a"));
    let (web_cert, own) = (
        authority.issue("web", &["a.example"]),
        authority.issue("own", &["c"]),
    );
    let tls = format!("[listener.web.tls]\n{}\n", web_cert.config("certificate"));
    let config = web("", "", &[&origin]).replace("[pool.app]", &format!("{tls}[pool.app]"));
    let proxy = Proxy::start(&config);
    let mut last = None;
    for version in rustls::ALL_VERSIONS {
        let trust = Trust::with(&authority, &[version], Some(&own));
        assert!(!resumes(&proxy, &trust), "{version:?}");
        proxy.upgrade();
        assert!(resumes(&proxy, &trust), "{version:?}");
        last = Some(trust);
    }
    let ca = format!("[listener.web.tls]\nclient_ca = {:?}\n", authority.ca());
    proxy.edit("[listener.web.tls]\n", &ca);
    proxy.upgrade();
    assert!(!resumes(&proxy, &last.unwrap()), "others are let in");
    proxy.end_successor();
}

#[test]
fn systemd_is_told_which_process_serves() {
    let origin = Origin::named("x");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    let told = || {
        let mut buffer = [0; 256];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec())
            .unwrap()
            .trim_end()
            .to_owned()
    };
    let config = web("", "", &[&origin]);
    let variables: [(&str, &Path); 1] = [("NOTIFY_SOCKET", &path)];
    let mut proxy = Proxy::start_in(&variables, "", &config);
    assert_eq!(told(), "READY=1");
    proxy.signal("USR2");
    let mut both = [told(), told()];
    both.sort();
    assert!(proxy.ended().success());
    let id = proxy.serving();
    assert_eq!(both, [format!("MAINPID={id}"), "READY=1".to_owned()]);
    proxy.until_said(&format!("process {id} has taken over"));
    proxy.end_successor();
    assert_eq!(told(), "STOPPING=1");
}

#[test]
fn a_pid_file_that_moves_leaves_none_behind() {
    let origin = Origin::named("x");
    let mut proxy = Proxy::start(&web("", "", &[&origin]));
    let first = proxy.serving();
    proxy.edit("/pid\"", "/other\"");
    proxy.ctl("upgrade");
    assert!(proxy.path("other").exists(), "it is there by then");
    until("the old file has gone", || !proxy.path("pid").exists());
    assert!(proxy.ended().success());
    proxy.edit("/other\"", "/pid\"");
    proxy.ctl("upgrade");
    assert!(proxy.path("pid").exists(), "it is there by then");
    until("the other file has gone", || !proxy.path("other").exists());
    assert_ne!(proxy.serving(), first);
    proxy.end_successor();
}
