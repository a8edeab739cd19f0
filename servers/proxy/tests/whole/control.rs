//! The worker of operators, checks and names, and real-time priority.

use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use servers_common::testing::{self, real_time};

use super::support::{Client, Origin, Proxy, until};

const CHECK: &str = "[pool.app.check]\nkind = \"http\"\ninterval = \"20ms\"\n";
const CHECKED_EACH: Duration = Duration::from_millis(20);

/// A listener and its pool, whose server is checked.
fn checked(origin: &Origin) -> String {
    "[listener.web]\nbind = \"127.0.0.1:0\"\nmode = \"http\"\npool = \"app\"\n".to_owned()
        + CHECK
        + &origin.config("app", "s0")
}

fn polls(proxy: &Proxy, class: &str) -> u64 {
    let rows: Vec<Value> = serde_json::from_str(&proxy.ctl("show cpu json")).unwrap();
    let row = rows.iter().find(|row| row["class"] == class);
    row.unwrap()["polls"].as_u64().unwrap()
}

#[test]
fn checks_and_operators_have_a_worker_and_an_account_of_their_own() {
    let origin = Origin::named("x");
    let proxy = Proxy::start(&checked(&origin));
    until("checks are made there", || polls(&proxy, "(checks)") > 30);
    assert!(polls(&proxy, "(operators)") > 0);
    assert_eq!(polls(&proxy, "urgent"), 0, "nothing else is in this class");
    // What a reload begins outlives the operator's task, and belongs to the other workers.
    let socket = proxy.path("new");
    let address = format!("unix:{}", socket.display());
    proxy.rewrite(&checked(&origin).replace("127.0.0.1:0", &address));
    proxy.ctl("reload");
    let before = polls(&proxy, "normal");
    // More than what comes by itself before a test gives up.
    for _ in 0..500 {
        let mut client = Client::over(UnixStream::connect(&socket).unwrap());
        assert_eq!(client.get("/").text(), "x");
    }
    let served = || polls(&proxy, "normal") - before;
    until("they were served there", || served() >= 500);
    // They end with their pool. Some may be on their way.
    let unchecked = checked(&origin).replace(CHECK, "");
    proxy.rewrite(&unchecked.replace("127.0.0.1:0", &address));
    proxy.ctl("reload");
    until("nobody checks it", || {
        let before = origin.connections();
        std::thread::sleep(20 * CHECKED_EACH);
        origin.connections() == before
    });
}

#[test]
fn workers_have_real_time_priority_where_it_is_allowed() {
    if !real_time::may_have_it() {
        return;
    }
    let origin = Origin::named("x");
    let config = checked(&origin);
    let proxy = Proxy::start(&config);
    // A worker that has been busy for long has it again when it has slept.
    until("control has it", || {
        real_time::threads_with_it(proxy.serving()).contains(&"control-0".to_owned())
    });
    let always = Proxy::start_with("real_time = true\n", &config);
    until("a worker has it", || {
        real_time::threads_with_it(always.serving()).contains(&"evenkeel-0".to_owned())
    });
    // An event is found late then, and such a thread may not be busy for long.
    let late = Proxy::start_with("io_check_bound = \"3ms\"\n", &config);
    until("control has it", || {
        real_time::threads_with_it(late.serving()).contains(&"control-0".to_owned())
    });
    let threads = real_time::threads_with_it(late.serving());
    assert!(!threads.contains(&"evenkeel-0".to_owned()), "{threads:?}");
    let who = |proxy: &Proxy| {
        let info = proxy.ctl("show info");
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix("RealTime: "));
        line.unwrap().to_owned()
    };
    assert_eq!(who(&proxy), "control, and workers beside computations");
    assert_eq!((who(&always), who(&late)), ("all".into(), "control".into()));
    let ordinary = Proxy::start_with("real_time = false\n", &config);
    assert_eq!(who(&ordinary), "none");
    assert_eq!(ordinary.connect().get("/").text(), "x");
    assert_eq!(
        real_time::threads_with_it(ordinary.serving()),
        Vec::<String>::new()
    );
}

#[test]
fn without_leave_for_real_time_priority_the_proxy_begins_unless_it_has_to_have_it() {
    let Some(shell) = real_time::without_leave() else {
        return;
    };
    let origin = Origin::named("x");
    let config = checked(&origin);
    let proxy = Proxy::start_under(shell, "", &config);
    assert_eq!(proxy.connect().get("/").text(), "x");
    proxy.until_said("LimitRTPRIO=2");
    let said = proxy.complaints();
    assert_eq!(said.matches("real-time priority").count(), 1, "{said}");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("proxy.toml");
    std::fs::write(&file, format!("[process]\nreal_time = true\n{config}")).unwrap();
    let mut command: Command = real_time::without_leave().unwrap();
    command
        .args([env!("CARGO_BIN_EXE_evenkeel-proxy"), "run"])
        .arg(file);
    let (is_good, _, said) = testing::Program::run(&mut command);
    assert!(!is_good && said.contains("process.real_time"), "{said}");
    assert!(said.contains("CAP_SYS_NICE"), "{said}");
}
