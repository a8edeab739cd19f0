//! Who gets a place, and who waits for one.

use std::future::Future;

use evenkeel::runtime::Builder;
use evenkeel::time::sleep;

use super::*;

const LIMIT: Duration = Duration::from_secs(60);

fn run(future: impl Future<Output = ()>) {
    let runtime = Builder::new().workers(2).build().unwrap();
    runtime.block_on(async {
        timeout(LIMIT, future).await.expect("the test ends");
    });
}

fn config(text: &str) -> config::Pool {
    let text = format!(
        "[listener.l]\nbind = \"127.0.0.1:0\"\nmode = \"tcp\"\npool = \"p\"\n[pool.p]\n{text}"
    );
    let config = config::parse("test", &text).unwrap();
    config.pools["p"].get_ref().clone()
}

/// One server with one place, and two who may wait.
fn narrow() -> Arc<Pool> {
    let text = "queue = { max = 2, timeout = \"24h\" }\n[[pool.p.server]]\nname = \"a\"\n\
                address = \"127.0.0.1:1\"\nconnections_max = 1\n";
    Pool::new("p", config(text), None)
}

/// Whether it waits, with one poll.
async fn waits<F: Future + Unpin>(future: &mut F) -> bool {
    std::future::poll_fn(|cx| {
        let polled = std::pin::Pin::new(&mut *future).poll(cx);
        std::task::Poll::Ready(polled.is_pending())
    })
    .await
}

#[test]
fn places_are_given_in_the_order_of_the_queue() {
    run(async {
        let pool = narrow();
        let first = pool.take(0, &[]).await.unwrap();
        let mut second = Box::pin(pool.take(0, &[]));
        let mut third = Box::pin(pool.take(0, &[]));
        assert!(waits(&mut second).await && waits(&mut third).await);
        assert_eq!(pool.waiting(), 2);
        let full = pool.take(0, &[]).await.unwrap_err();
        assert_eq!(full, NoServer::QueueFull("p".to_owned(), 2));
        drop(first);
        assert!(waits(&mut third).await);
        let second = second.await.unwrap();
        assert!(waits(&mut third).await);
        drop(second);
        drop(third.await.unwrap());
        assert_eq!(pool.members()[0].active, 0);
    });
}

#[test]
fn only_the_wait_counts_as_one() {
    run(async {
        let pool = narrow();
        let first = pool.take(0, &[]).await.unwrap();
        assert_eq!(first.queued, Duration::ZERO);
        sleep(Duration::from_millis(20)).await;
        let since = Instant::now();
        let mut second = Box::pin(pool.take(0, &[]));
        assert!(waits(&mut second).await);
        sleep(Duration::from_millis(2)).await;
        drop(first);
        let queued = second.await.unwrap().queued;
        assert!(queued >= Duration::from_millis(1) && queued <= since.elapsed());
    });
}

#[test]
fn one_who_leaves_keeps_no_place() {
    run(async {
        let pool = narrow();
        let first = pool.take(0, &[]).await.unwrap();
        let mut second = Box::pin(pool.take(0, &[]));
        let mut third = Box::pin(pool.take(0, &[]));
        assert!(waits(&mut second).await && waits(&mut third).await);
        drop(second);
        let mut fourth = Box::pin(pool.take(0, &[]));
        assert!(waits(&mut fourth).await, "it takes the place in the queue");
        drop(first);
        drop(third.await.unwrap());
        // The place is given to it, and given back when it leaves.
        drop(fourth);
        assert_eq!(pool.members()[0].active, 0);
        assert_eq!(pool.waiting(), 0);
    });
}

#[test]
fn nobody_waits_for_servers_that_are_down_or_longer_than_allowed() {
    run(async {
        let text = "queue = { max = 2, timeout = \"1ms\" }\n[[pool.p.server]]\nname = \"a\"\n\
                    address = \"127.0.0.1:1\"\nconnections_max = 1\n";
        let pool = Pool::new("p", config(text), None);
        let _first = pool.take(0, &[]).await.unwrap();
        let late = pool.take(0, &[]).await.unwrap_err();
        assert_eq!(
            late,
            NoServer::QueueTimeout("p".to_owned(), Duration::from_millis(1))
        );
        pool.set_admin(0, Admin::Drain);
        let down = pool.take(0, &[]).await.unwrap_err();
        assert_eq!(down, NoServer::NoneUp("p".to_owned()));
    });
}

#[test]
fn a_server_that_comes_up_is_given_to_those_who_wait() {
    run(async {
        let text = "[[pool.p.server]]\nname = \"a\"\naddress = \"127.0.0.1:1\"\n\
                    connections_max = 1\n[[pool.p.server]]\nname = \"b\"\n\
                    address = \"127.0.0.1:2\"\n";
        let pool = Pool::new("p", config(text), None);
        assert_eq!(pool.set_up(1, false), Change::Down);
        let _first = pool.take(0, &[]).await.unwrap();
        let mut second = Box::pin(pool.take(0, &[]));
        assert!(waits(&mut second).await);
        assert_eq!(pool.set_up(1, true), Change::Up);
        assert_eq!(second.await.unwrap().index(), 1);
    });
}

#[test]
fn what_is_known_of_a_server_outlives_a_change_of_the_pool() {
    let server = |name: &str, weight: u32| {
        format!(
            "[[pool.p.server]]\nname = \"{name}\"\naddress = \"127.0.0.1:1\"\nweight = {weight}\n"
        )
    };
    let check = "check = { kind = \"tcp\" }\n";
    let before = [check, &server("a", 1), &server("b", 1)].concat();
    let pool = Pool::new("p", config(&before), None);
    pool.set_admin(0, Admin::Maintenance);
    pool.set_weight(0, 9);
    let _ = pool.set_up(1, false);
    let after = [check, &server("c", 1), &server("b", 2), &server("a", 1)].concat();
    let next = Pool::new("p", config(&after), Some(&pool));
    let members = next.members();
    assert!(members[0].up && members[0].admin == Admin::Ready);
    // Its new weight is what the file says.
    assert!(!members[1].up && members[1].weight == 2);
    // Nothing of it changed, so that what the operator said holds.
    assert!(members[2].admin == Admin::Maintenance && members[2].weight == 9);
    let same = next.server("a").unwrap().1;
    assert!(Arc::ptr_eq(same, pool.server("a").unwrap().1));
}

#[test]
fn an_ejected_server_stays_out_and_limits_stay_when_others_come() {
    let servers = |names: &[&str]| {
        let of = |name: &&str| {
            format!("[[pool.p.server]]\nname = \"{name}\"\naddress = \"127.0.0.1:1\"\n")
        };
        let outliers = "outliers = { consecutive = 1, ejected_percent_max = 100 }\n";
        config(&(outliers.to_owned() + &names.iter().map(of).collect::<String>()))
    };
    let pool = Pool::new("p", servers(&["a", "b"]), None);
    pool.outcome(0, false);
    pool.set_max(1, 7);
    let left = pool.members()[0].record.left(pool.age());
    assert!(left > Duration::ZERO);
    let next = Pool::new("p", servers(&["c", "a", "b"]), Some(&pool));
    let members = next.members();
    assert!(members[1].record.is_out(next.age()));
    assert!(members[1].record.left(next.age()) <= left);
    assert_eq!(members[2].active_max, 7);
    assert!(!members[0].record.is_ejected() && members[0].since > Duration::ZERO);
}

#[test]
fn a_server_may_begin_in_maintenance_and_stays_where_operators_put_it() {
    run(async {
        let text = |disabled: bool| {
            format!(
                "[[pool.p.server]]\nname = \"a\"\naddress = \"127.0.0.1:1\"\n\
                 disabled = {disabled}\n"
            )
        };
        let pool = Pool::new("p", config(&text(true)), None);
        assert_eq!(pool.members()[0].admin, Admin::Maintenance);
        pool.set_admin(0, Admin::Ready);
        let same = Pool::new("p", config(&text(true)), Some(&pool));
        assert_eq!(same.members()[0].admin, Admin::Ready, "as operators said");
        let back = Pool::new("p", config(&text(false)), Some(&same));
        assert_eq!(back.members()[0].admin, Admin::Ready);
        let again = Pool::new("p", config(&text(true)), Some(&back));
        assert_eq!(
            again.members()[0].admin,
            Admin::Maintenance,
            "the file has changed"
        );
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_connection_is_given_what_its_server_says() {
    use nix::sys::socket::{getsockopt, sockopt};

    use crate::socket::{Ends, Socket};
    use crate::within::Within;

    run(async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let text = format!("[[pool.p.server]]\nname = \"a\"\naddress = \"{address}\"\n");
        let config = config(&text).servers[0].get_ref().clone();
        let server = |control: Option<&str>, window| {
            let mut server = Server::new(config.clone(), None);
            let control = control.map(Into::into);
            server.within = Within { control, window };
            server
        };
        let made = async |server: &Server, is_kept| {
            let stream = dial::connect(server, &Ends::default(), is_kept).await;
            let stream = stream.unwrap();
            let Some(Socket::Tcp(stream)) = stream.plain() else {
                panic!("a socket of TCP");
            };
            let name = getsockopt(stream, sockopt::TcpCongestion).unwrap();
            let name = name.to_str().unwrap().trim_end_matches('\0');
            (
                name.to_owned(),
                getsockopt(stream, sockopt::RcvBuf).unwrap(),
            )
        };
        let (system, usual) = made(&server(None, None), true).await;
        let untouched = made(&server(None, None), false).await;
        assert_eq!(untouched, (system.clone(), usual));
        let given = server(Some("reno"), Some(50_000));
        assert_eq!(made(&given, true).await, ("reno".to_owned(), usual));
        // The kernel doubles it for what surrounds the bytes.
        assert_eq!(made(&given, false).await, ("reno".to_owned(), 100_000));
        let refused = made(&server(Some("no-such"), None), true).await;
        assert_eq!(
            refused,
            (system, usual),
            "one that the system does not have"
        );
    });
}
