//! The congestion control of listeners, as the kernel has it.

use std::fs;

use rustix::net::sockopt::tcp_congestion;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::support::{Origin, Proxy, web};

/// The one of the proxy's socket that listens at an address of IPv4.
fn of_listener(proxy: &Proxy, name: &str) -> String {
    let address: std::net::SocketAddr = proxy.address(name).parse().unwrap();
    let process = proxy.serving();
    let sockets = fs::read_to_string(format!("/proc/{process}/net/tcp")).unwrap();
    let port = format!(":{:04X}", address.port());
    let inode = sockets.lines().find_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        // 0A: it listens.
        (words[1].ends_with(&port) && words[3] == "0A").then(|| words[9].to_owned())
    });
    let link = format!("socket:[{}]", inode.expect("it listens"));
    let descriptor = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let descriptor = descriptor.map(Result::unwrap).find(|descriptor| {
        fs::read_link(descriptor.path()).is_ok_and(|target| target.as_os_str() == &*link)
    });
    let number = descriptor.expect("it has the socket").file_name();
    let number = number.to_str().unwrap().parse().unwrap();
    let process = Pid::from_raw(i32::try_from(process).unwrap()).unwrap();
    let process = pidfd_open(process, PidfdFlags::empty()).unwrap();
    let socket = pidfd_getfd(process, number, PidfdGetfdFlags::empty()).unwrap();
    tcp_congestion(socket).unwrap()
}

#[test]
fn an_upgrade_that_fails_leaves_the_congestion_control() {
    let origin = Origin::named("x");
    let with = |control: &str, more: &str| {
        web(
            &format!("congestion_control = {control:?}\n{more}"),
            "",
            &[&origin],
        )
    };
    let mut proxy = Proxy::start(&with("reno", ""));
    // The other process has the first listener's socket when it cannot have the second one's.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let second = format!(
        "[listener.zone]\nbind = {:?}\nmode = \"http\"\npool = \"app\"\n",
        taken.local_addr().unwrap().to_string()
    );
    proxy.rewrite(&(with("system", "") + &second));
    let (succeeded, ..) = proxy.try_ctl("upgrade");
    assert!(!succeeded, "it fails");
    assert_eq!(of_listener(&proxy, "web"), "reno");
    assert_eq!(proxy.connect().get("/").text(), "x");
    proxy.signal("TERM");
    assert!(proxy.ended().success());
}

#[test]
fn a_listener_has_the_congestion_control_that_the_configuration_says() {
    let system = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
    let system = system.trim();
    let automatic = if system.starts_with("bbr") {
        "reno"
    } else {
        system
    };
    let origin = Origin::named("x");
    // By name, `first` is the first.
    let first = "[listener.first]\nbind = \"127.0.0.1:0\"\nmode = \"http\"\npool = \"app\"\n";
    let both = |of_web: &str, of_first: &str| {
        let line = |control: &str| format!("congestion_control = {control:?}\n");
        web(&line(of_web), "", &[&origin]) + first + &line(of_first)
    };
    let proxy = Proxy::start(&both("reno", "system"));
    assert_eq!(of_listener(&proxy, "web"), "reno");
    assert_eq!(of_listener(&proxy, "first"), system);
    let mut client = proxy.connect();
    for (control, is) in [("system", system), ("reno", "reno"), ("auto", automatic)] {
        proxy.rewrite(&both(control, "auto"));
        proxy.ctl("reload");
        assert_eq!(of_listener(&proxy, "web"), is, "{control}");
    }
    // A reload that is refused changes none of them.
    for (before, after) in [("reno", "system"), ("system", "reno")] {
        proxy.rewrite(&both("auto", before));
        proxy.ctl("reload");
        let is = of_listener(&proxy, "first");
        proxy.rewrite(&both("no-such", after));
        let (succeeded, _, said) = proxy.try_ctl("reload");
        assert!(!succeeded, "it was refused");
        let expected = "listener web: congestion_control \"no-such\" cannot be used";
        assert!(said.contains(expected), "{said}");
        assert_eq!(of_listener(&proxy, "first"), is);
    }
    assert_eq!(of_listener(&proxy, "web"), automatic);
    assert_eq!(client.get("/").text(), "x");
}
