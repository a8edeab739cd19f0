//! The next process does not come to serve, and the old one goes on.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;

use super::support::{Origin, Proxy, until, web};

/// An upgrade that fails, with this said.
fn fails(proxy: &Proxy, said: &str, local: &Path) {
    let (done, _, errors) = proxy.try_ctl("upgrade");
    assert!(!done && errors.contains(said), "{errors}");
    assert!(
        errors.contains("this process goes on as before"),
        "{errors}"
    );
    assert_eq!(proxy.connect().get("/").text(), "x");
    // A socket in the file system, whose file is still there.
    let mut local = UnixStream::connect(local).unwrap();
    let asked = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    local.write_all(asked).unwrap();
    let mut answer = String::new();
    local.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("\r\n\r\nx"), "{answer}");
}

#[test]
fn whatever_becomes_of_the_next_process_the_old_one_goes_on() {
    let origin = Origin::named("x");
    let directory = tempfile::tempdir().unwrap();
    let local = &directory.path().join("local");
    let bind = format!("unix:{}", local.display());
    let config = format!("[listener.local]\nbind = {bind:?}\nmode = \"http\"\npool = \"app\"\n")
        + &web("", "", &[&origin]);
    let (long, short) = ("upgrade_timeout = \"30s\"", "upgrade_timeout = \"300ms\"");
    let mut proxy = Proxy::start_with(long, &config);
    let before = proxy.serving();
    let mut kept = proxy.connect();
    assert_eq!(kept.get("/").text(), "x");
    // A configuration that is wrong, and one that cannot be served by.
    proxy.edit("mode = \"http\"", "mode = \"htp\"");
    fails(&proxy, "proxy.toml:", local);
    proxy.edit("mode = \"htp\"", "mode = \"http\"");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    proxy.edit("bind = \"127.0.0.1:0\"", &format!("bind = {address:?}"));
    fails(&proxy, "listener web cannot listen on", local);
    proxy.edit(&format!("bind = {address:?}"), "bind = \"127.0.0.1:0\"");
    // A page that cannot be had, of which the next process says so before it takes anything over.
    proxy.edit("[process]", "[process]\nadmin_page = \"0.0.0.0:0\"");
    fails(&proxy, "process.admin_page_token_file", local);
    proxy.edit("admin_page = \"0.0.0.0:0\"", "");
    // Programs that end, say something else, do not answer, and are not there.
    proxy.program_becomes(Some("exit 3"));
    fails(&proxy, "exit status: 3", local);
    proxy.program_becomes(Some(
        "head -c 1 >/dev/null; printf '\\002\\000\\000\\000{}' >&0",
    ));
    fails(&proxy, "the new process", local);
    proxy.program_becomes(Some("exec sleep 100"));
    proxy.edit(long, short);
    proxy.ctl("reload");
    fails(&proxy, "did not serve within 300ms", local);
    proxy.edit(short, long);
    proxy.ctl("reload");
    std::fs::rename(proxy.path("program"), proxy.path("moved")).unwrap();
    fails(&proxy, "cannot start", local);
    std::fs::rename(proxy.path("moved"), proxy.path("program")).unwrap();
    assert_eq!(kept.get("/").text(), "x");
    assert_eq!(proxy.serving(), before);
    // And then it is well.
    proxy.program_becomes(None);
    proxy.upgrade();
    assert_eq!(kept.get("/").header("connection"), Some("close"));
    assert!(proxy.ended().success());
    proxy.end_successor();
}

#[test]
fn nothing_else_changes_while_another_process_is_to_take_over() {
    let origin = Origin::named("x");
    let config = web("", "", &[&origin]);
    let mut proxy = Proxy::start_with("upgrade_timeout = \"30s\"", &config);
    let file = proxy.path("sleeper");
    let script = format!(
        "echo $$ > {0}.new; mv {0}.new {0}; exec sleep 100",
        file.display()
    );
    proxy.program_becomes(Some(&script));
    thread::scope(|scope| {
        let asking = scope.spawn(|| proxy.try_ctl("upgrade"));
        until("the program was started", || file.exists());
        let (done, _, errors) = proxy.try_ctl("reload");
        assert!(
            !done && errors.contains("an upgrade is under way"),
            "{errors}"
        );
        let (done, _, errors) = proxy.try_ctl("upgrade");
        assert!(
            !done && errors.contains("another upgrade is under way"),
            "{errors}"
        );
        assert_eq!(proxy.connect().get("/").text(), "x");
        // Who is told to end ends the other one, too.
        proxy.signal("TERM");
        let (done, _, errors) = asking.join().unwrap();
        assert!(!done && errors.contains("was told to end"), "{errors}");
    });
    assert!(proxy.ended().success());
    let sleeper = std::fs::read_to_string(&file).unwrap();
    let process = format!("/proc/{}/cmdline", sleeper.trim());
    until("it has ended", || {
        !std::fs::read_to_string(&process).is_ok_and(|line| line.starts_with("sleep"))
    });
}
