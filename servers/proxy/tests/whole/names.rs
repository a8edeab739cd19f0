//! Servers by name.

use std::net::Ipv4Addr;

use super::support::{Names, Origin, Proxy, until};

const HOME: Option<Ipv4Addr> = Some(Ipv4Addr::LOCALHOST);

/// A listener and a pool with this server.
fn config(names: &Names, more: &str, server: &str) -> String {
    names.config(more)
        + "[listener.web]\nbind = \"127.0.0.1:0\"\nmode = \"http\"\npool = \"app\"\n"
        + &format!("[[pool.app.server]]\nname = \"s\"\n{server}\n")
}

fn answers(proxy: &Proxy) -> Vec<String> {
    let mut answers: Vec<String> = (0..4)
        .map(|_| proxy.connect().get("/").text().to_owned())
        .collect();
    answers.sort();
    answers.dedup();
    answers
}

/// Often, as a test waits for it.
const OFTEN: &str = "ttl_min = \"5ms\"\nttl_max = \"10ms\"\nattempts = 1\n";

#[test]
fn no_name_is_looked_up_for_a_connection() {
    let origin = Origin::named("x");
    let names = Names::new(3_600);
    names.host("app.example", HOME);
    let address = format!("address = \"app.example:{}\"", origin.address.port());
    let more = "resolve = \"all\"\nsend_proxy = \"v1\"\n";
    let origin_v1 = Origin::raw(|mut stream, _, _| {
        use std::io::{Read, Write};
        let mut buffer = [0; 512];
        let read = stream.read(&mut buffer).unwrap_or(0);
        assert!(buffer[..read].starts_with(b"PROXY TCP4"));
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx");
    });
    // A connection for each request.
    let each = format!(
        "{}{}",
        config(&names, "", &address),
        format_args!(
            "[[pool.app.server]]\nname = \"t\"\naddress = \"app.example:{}\"\n{more}",
            origin_v1.address.port()
        )
    );
    let proxy = Proxy::start(&each);
    until(
        "what was asked is asked once more in the background",
        || names.asked() >= 2,
    );
    let before = names.asked();
    for _ in 0..20 {
        assert_eq!(answers(&proxy), ["x"]);
    }
    assert_eq!(names.asked(), before);
    let state = proxy.ctl("show servers state");
    let found = format!(" t@{0} {0} 2 ", origin_v1.address);
    assert!(state.contains(&found), "{state}");
    assert!(
        state.contains(&format!(" s {} 2 ", origin.address)),
        "{state}"
    );
}

#[test]
fn servers_of_a_service_come_and_go() {
    let origins = [Origin::named("a"), Origin::named("b"), Origin::named("c")];
    let [a, b, c] = origins.each_ref().map(|origin| origin.address.port());
    let names = Names::new(0);
    names.host("home.example", HOME);
    let serve =
        |ports: &[(u16, u16)]| names.service("_http._tcp.app.example", "home.example", ports);
    serve(&[(1, a), (1, b), (2, c)]);
    let server = "address = \"srv:_http._tcp.app.example\"";
    let proxy = Proxy::start(&config(&names, OFTEN, server));
    assert_eq!(answers(&proxy), ["a", "b"], "those of the best priority");
    proxy.ctl(&format!("set server app/s@127.0.0.1:{b} state drain"));
    serve(&[(1, b), (1, c)]);
    until("others have come", || answers(&proxy) == ["c"]);
    proxy.ctl(&format!("set server app/s@127.0.0.1:{b} state ready"));
    assert_eq!(answers(&proxy), ["b", "c"], "what operators said was kept");
    // What is known stays while nobody answers, and while the answer is that there is nothing.
    names.silent(true);
    proxy.until_said("_http._tcp.app.example cannot be looked up");
    assert_eq!(answers(&proxy), ["b", "c"]);
    serve(&[]);
    names.silent(false);
    let before = names.asked();
    until("it was asked again", || names.asked() > before + 3);
    assert_eq!(answers(&proxy), ["b", "c"]);
    serve(&[(0, a)]);
    until("one has come back", || answers(&proxy) == ["a"]);
    proxy.until_said("_http._tcp.app.example is found");
}

/// The file that could not be gone by names nobody, so that there would be nobody to ask.
#[test]
fn a_reload_that_fails_changes_nothing_of_how_names_are_asked_for() {
    let (a, b) = (Origin::named("a"), Origin::named("b"));
    let names = Names::new(0);
    names.host("home.example", HOME);
    let serve = |port: u16| names.service("_http._tcp.app.example", "home.example", &[(1, port)]);
    serve(a.address.port());
    let by_name = config(&names, OFTEN, "address = \"srv:_http._tcp.app.example\"");
    let proxy = Proxy::start(&by_name);
    assert_eq!(answers(&proxy), ["a"]);
    // The address of an origin is in use.
    let address = a.address;
    proxy.rewrite(&format!(
        "[listener.web]\nbind = \"127.0.0.1:0\"\nmode = \"http\"\npool = \"app\"\n\
         [listener.other]\nbind = \"{address}\"\nmode = \"http\"\npool = \"app\"\n\
         [[pool.app.server]]\nname = \"s\"\naddress = \"{address}\"\n"
    ));
    let (done, _, errors) = proxy.try_ctl("reload");
    assert!(!done && errors.contains("in use"), "{errors}");
    let before = names.asked();
    until("it is asked for as before", || names.asked() > before + 3);
    serve(b.address.port());
    until("it is followed", || answers(&proxy) == ["b"]);
}

/// A part of an answer does not take the servers of the rest away.
#[test]
fn a_host_of_a_service_that_nobody_answers_for_keeps_its_servers() {
    let (a, b) = (Origin::named("a"), Origin::named("b"));
    let names = Names::new(0);
    names.host("one.example", HOME);
    names.host("two.example", HOME);
    let hosts = [
        ("one.example", 1, a.address.port()),
        ("two.example", 1, b.address.port()),
    ];
    names.hosts("_http._tcp.app.example", &hosts);
    let server = "address = \"srv:_http._tcp.app.example\"";
    let proxy = Proxy::start(&config(&names, OFTEN, server));
    assert_eq!(answers(&proxy), ["a", "b"]);
    names.silent_for("two.example");
    let asked = || names.asked_for("_http._tcp.app.example");
    let before = asked();
    until("it was given up, and asked again", || asked() > before + 1);
    assert_eq!(answers(&proxy), ["a", "b"]);
}

#[test]
fn a_server_whose_name_is_not_known_is_down_until_it_is() {
    let origin = Origin::named("x");
    let names = Names::new(0);
    let server = format!("address = \"app.example:{}\"", origin.address.port());
    let proxy = Proxy::start(&config(&names, OFTEN, &server));
    assert_eq!(proxy.row("app/s")["status"], "DOWN");
    assert_eq!(proxy.connect().get("/").status, 503);
    names.host("app.example", HOME);
    proxy.until_status("app/s", "no check");
    assert_eq!(proxy.connect().get("/").text(), "x");
}

#[test]
fn a_service_has_only_so_many_servers() {
    let origins = [Origin::named("a"), Origin::named("b"), Origin::named("c")];
    let mut ports = origins.each_ref().map(|origin| (1, origin.address.port()));
    let names = Names::new(0);
    names.host("home.example", HOME);
    names.service("_http._tcp.app.example", "home.example", &ports);
    let more = format!("{OFTEN}addresses_max = 2\n");
    let server = "address = \"srv:_http._tcp.app.example\"";
    let proxy = Proxy::start(&config(&names, &more, server));
    ports.sort();
    assert_eq!(answers(&proxy).len(), 2);
    assert_eq!(proxy.row("app/BACKEND")["act"], 2);
}
