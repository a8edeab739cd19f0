//! Requests in classes beneath Tokio. With `EVENKEEL=off` in the environment, there are none.

use std::future::Future;
use std::time::Duration;

use classes::{EXPORT, routes};
use evenkeel::runtime::Handle;
use evenkeel::{Class, task};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Longer than any test takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

fn is_on() -> bool {
    std::env::var_os("EVENKEEL").is_none_or(|value| value != "off")
}

/// How a class is named in answers; that of a task of Tokio's own, if Evenkeel is off.
fn named(class: Class) -> String {
    format!("{:?}", is_on().then_some(class))
}

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    let ended = tokio::time::timeout(LIMIT, future).await;
    ended.expect("in time")
}

async fn answer(path: &str, head: &str) -> String {
    in_time(classes::answer(routes(), path, head))
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_is_in_its_class() {
    assert_eq!(answer("/plain", "").await, named(Class::NORMAL));
    assert_eq!(answer("/health", "").await, named(Class::URGENT));
    assert_eq!(answer("/export", "").await, named(Class::BULK));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_route_spawns_by_tokio_is_in_its_class() {
    assert_eq!(answer("/spawn", "").await, named(Class::BULK));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_is_in_its_class() {
    let paid = format!("true {}", named(Class::NORMAL));
    assert_eq!(answer("/report", "x-paid: 1\r\n").await, paid);
    let free = format!("false {}", named(Class::BULK));
    assert_eq!(answer("/report", "").await, free);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_scheduler_charges_the_class_of_a_route() {
    let Ok(runtime) = Handle::try_current() else {
        assert!(!is_on(), "the runtime beneath is not found");
        assert_eq!(answer("/export", "").await, named(Class::BULK));
        return;
    };
    let bulk = || {
        let stats = runtime.stats();
        let class = stats
            .classes
            .iter()
            .find(|class| class.class == Class::BULK);
        class
            .map(|class| (class.polls, class.run + class.heavy))
            .unwrap()
    };
    let before = bulk();
    assert_eq!(answer("/plain", "").await, named(Class::NORMAL));
    assert_eq!(bulk(), before, "nothing was asked of the class yet");
    assert_eq!(answer("/export", "").await, named(Class::BULK));
    let after = bulk();
    assert!(after.0 > before.0, "{before:?} {after:?}");
    // Less what the clocks may differ.
    assert!(after.1 - before.1 >= EXPORT / 2, "{before:?} {after:?}");
}

/// In the main future, in a task and in blocking work: wherever a program of Tokio's may be.
#[tokio::test(flavor = "multi_thread")]
async fn its_own_interface_is_at_home_beneath_tokio() {
    if !is_on() {
        assert!(Handle::try_current().is_err());
        assert!(task::change_class(Class::BULK).is_err());
        return;
    }
    let bulk = || evenkeel::spawn_in(Class::BULK, async { task::class() });
    assert_eq!(in_time(bulk()).await.unwrap(), Some(Class::BULK));
    let in_task = tokio::spawn(async move { bulk().await.unwrap() });
    assert_eq!(in_time(in_task).await.unwrap(), Some(Class::BULK));
    let blocking = tokio::task::spawn_blocking(move || Handle::current().block_on(bulk()));
    assert_eq!(in_time(blocking).await.unwrap().unwrap(), Some(Class::BULK));
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_either_interface_have_both() {
    if !is_on() {
        return;
    }
    let listener = evenkeel::net::TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap();
    let to = listener.local_addr().unwrap();
    let server = evenkeel::spawn_in(Class::URGENT, async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        // Tokio's timer and task, and Tokio's traits on Evenkeel's socket.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let byte = tokio::spawn(async { b'x' }).await.unwrap();
        stream.write_all(&[byte]).await.unwrap();
        task::class()
    });
    let client = tokio::spawn(async move {
        let mut stream = tokio::net::TcpStream::connect(to).await.unwrap();
        evenkeel::time::sleep(Duration::from_millis(1)).await;
        stream.read_u8().await.unwrap()
    });
    assert_eq!(in_time(client).await.unwrap(), b'x');
    assert_eq!(in_time(server).await.unwrap(), Some(Class::URGENT));
}

#[test]
fn two_runtimes_are_told_apart() {
    if !is_on() {
        return;
    }
    let runtimes = [(); 2].map(|()| tokio::runtime::Runtime::new().unwrap());
    let spawned = |runtime: &tokio::runtime::Runtime| {
        runtime.block_on(async {
            let task = evenkeel::spawn(async { Handle::current().stats().classes.len() });
            let classes = in_time(task).await.unwrap();
            let polls = |stats: evenkeel::stats::Stats| {
                stats.classes.iter().map(|class| class.polls).sum::<u64>()
            };
            (classes, polls(Handle::current().stats()))
        })
    };
    assert_eq!(spawned(&runtimes[0]).0, 3);
    // Within the first, the second is entered, and left again.
    runtimes[0].block_on(async {
        let first = Handle::current().stats().workers.len();
        let second = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(first + 1)
            .build()
            .unwrap();
        {
            let _entered = second.enter();
            assert_eq!(Handle::current().stats().workers.len(), first + 1);
        }
        assert_eq!(Handle::current().stats().workers.len(), first);
        second.shutdown_background();
    });
    drop(runtimes);
    assert!(Handle::try_current().is_err());
}
