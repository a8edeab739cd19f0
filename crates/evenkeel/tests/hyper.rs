//! hyper, client and server, on the runtime's own sockets.
#![cfg(feature = "hyper")]

mod support;

use std::convert::Infallible;
use std::future::{pending, ready};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use evenkeel::Class;
use evenkeel::hyper::{Executor, Timer};
use evenkeel::net::{TcpListener, TcpStream, UnixStream};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::rt::{Read, ReadBuf, Timer as _, Write};
use hyper::service::service_fn;
use hyper::{Request, Response};
use support::within;

async fn echo(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let body = request.into_body().collect().await?.to_bytes();
    Ok(Response::new(Full::new(body)))
}

async fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    (client, listener.accept().await.unwrap().0)
}

fn request(body: &Bytes) -> Request<Full<Bytes>> {
    Request::post("http://evenkeel.test/")
        .body(Full::new(body.clone()))
        .unwrap()
}

#[evenkeel::test]
async fn http_1_requests_share_a_connection() {
    support::watch_descriptors();
    let (client, server) = connected().await;
    let serving = evenkeel::spawn(async move {
        hyper::server::conn::http1::Builder::new()
            .timer(Timer)
            .serve_connection(server, service_fn(echo))
            .await
    });
    let (mut sender, connection) = hyper::client::conn::http1::handshake(client).await.unwrap();
    evenkeel::spawn(connection);
    for len in [0, 1, 100_000, 3] {
        let body = Bytes::from(vec![b'x'; len]);
        within(sender.ready()).await.unwrap();
        let response = within(sender.send_request(request(&body))).await.unwrap();
        assert_eq!(within(response.collect()).await.unwrap().to_bytes(), body);
    }
    drop(sender);
    within(serving).await.unwrap().unwrap();
}

#[evenkeel::test]
async fn http_2_requests_run_beside_each_other() {
    support::watch_descriptors();
    let (client, server) = connected().await;
    let serving = evenkeel::spawn(async move {
        hyper::server::conn::http2::Builder::new(Executor)
            .timer(Timer)
            .keep_alive_interval(Duration::from_secs(5))
            .serve_connection(server, service_fn(echo))
            .await
    });
    let (sender, connection) = hyper::client::conn::http2::Builder::new(Executor)
        .handshake(client)
        .await
        .unwrap();
    evenkeel::spawn(connection);
    let mut answers = Vec::new();
    for number in 0..20u8 {
        let mut sender = sender.clone();
        answers.push(evenkeel::spawn(async move {
            let body = Bytes::from(vec![number; 50_000]);
            let response = sender.send_request(request(&body)).await.unwrap();
            assert_eq!(response.collect().await.unwrap().to_bytes(), body);
        }));
    }
    for answer in answers {
        within(answer).await.unwrap();
    }
    drop(sender);
    within(serving).await.unwrap().unwrap();
}

#[evenkeel::test]
async fn a_request_whose_head_does_not_come_times_out() {
    support::watch_descriptors();
    let (client, server) = connected().await;
    let never = service_fn(|_| pending::<Result<Response<Full<Bytes>>, Infallible>>());
    let error = within(
        hyper::server::conn::http1::Builder::new()
            .timer(Timer)
            .header_read_timeout(Duration::from_millis(20))
            .serve_connection(server, never),
    )
    .await
    .unwrap_err();
    assert!(error.is_timeout(), "{error}");
    drop(client);
}

#[evenkeel::test]
async fn a_timer_is_never_early_and_can_be_reset() {
    support::watch_descriptors();
    let start = Instant::now();
    within(Timer.sleep(Duration::from_millis(20))).await;
    assert!(start.elapsed() >= Duration::from_millis(20));

    let mut sleep = Timer.sleep_until(start);
    within(sleep.as_mut()).await;
    let deadline = Timer.now() + Duration::from_millis(20);
    Timer.reset(&mut sleep, deadline);
    within(sleep.as_mut()).await;
    assert!(Instant::now() >= deadline);

    // A sleep of another timer is replaced.
    struct Foreign;
    impl Future for Foreign {
        type Output = ();
        fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<()> {
            Poll::Pending
        }
    }
    impl hyper::rt::Sleep for Foreign {}
    let mut sleep: Pin<Box<dyn hyper::rt::Sleep>> = Box::pin(Foreign);
    Timer.reset(&mut sleep, Timer.now());
    within(sleep).await;
}

#[evenkeel::test]
async fn an_executor_runs_what_it_is_given() {
    support::watch_descriptors();
    let (done, heard) = tokio::sync::oneshot::channel();
    hyper::rt::Executor::execute(&Executor, async move { done.send(7).unwrap() });
    assert_eq!(within(heard).await.unwrap(), 7);
    hyper::rt::Executor::execute(&Executor, ready(()));
}

#[evenkeel::test]
async fn an_executor_spawns_in_the_class_that_it_is_told() {
    support::watch_descriptors();
    let polls = |class: Class| {
        let stats = evenkeel::runtime::Handle::current().stats();
        stats.classes[class.index()].polls
    };
    let before = polls(Class::BULK);
    let (done, heard) = tokio::sync::oneshot::channel();
    let executor = Executor::in_class(Class::BULK);
    hyper::rt::Executor::execute(&executor, async move { done.send(7).unwrap() });
    assert_eq!(within(heard).await.unwrap(), 7);
    assert_eq!(polls(Class::BULK), before + 1);
    let before = polls(Class::BULK);
    let (done, heard) = tokio::sync::oneshot::channel();
    hyper::rt::Executor::execute(&Executor, async move { done.send(7).unwrap() });
    within(heard).await.unwrap();
    assert_eq!(polls(Class::BULK), before, "inherited, not chosen");
}

/// Bytes that one half writes, through hyper's traits alone, the other reads to the end.
async fn crosses(mut write: impl Write + Unpin, mut read: impl Read + Unpin) {
    let written = std::future::poll_fn(|cx| Pin::new(&mut write).poll_write(cx, b"half"));
    assert_eq!(within(written).await.unwrap(), 4);
    within(std::future::poll_fn(|cx| {
        Pin::new(&mut write).poll_shutdown(cx)
    }))
    .await
    .unwrap();
    let mut memory = [std::mem::MaybeUninit::uninit(); 16];
    let mut buf = ReadBuf::uninit(&mut memory);
    for expected in [4, 4] {
        let filled = std::future::poll_fn(|cx| Pin::new(&mut read).poll_read(cx, buf.unfilled()));
        within(filled).await.unwrap();
        assert_eq!(buf.filled().len(), expected);
    }
    assert_eq!(buf.filled(), b"half");
}

#[evenkeel::test]
async fn owned_halves_have_the_traits_too() {
    support::watch_descriptors();
    let (here, there) = connected().await;
    let ((_read, write), (read, _write)) = (here.into_split(), there.into_split());
    crosses(write, read).await;
    let (here, there) = UnixStream::pair().unwrap();
    let ((_read, write), (read, _write)) = (here.into_split(), there.into_split());
    crosses(write, read).await;
}

#[evenkeel::test]
async fn reads_fill_memory_that_is_not_initialised() {
    support::watch_descriptors();
    let (mut client, mut server) = connected().await;
    assert!(Write::is_write_vectored(&client));
    let written = std::future::poll_fn(|cx| {
        let slices = [
            std::io::IoSlice::new(b"kept "),
            std::io::IoSlice::new(b"apart"),
        ];
        Write::poll_write_vectored(Pin::new(&mut client), cx, &slices)
    });
    assert_eq!(within(written).await.unwrap(), 10);
    let mut memory = [std::mem::MaybeUninit::uninit(); 16];
    let mut buf = ReadBuf::uninit(&mut memory);
    buf.unfilled().put_slice(b"we ");
    let read = std::future::poll_fn(|cx| Pin::new(&mut server).poll_read(cx, buf.unfilled()));
    within(read).await.unwrap();
    assert_eq!(buf.filled(), b"we kept apart");
    within(std::future::poll_fn(|cx| {
        Write::poll_shutdown(Pin::new(&mut client), cx)
    }))
    .await
    .unwrap();
    let mut end = [std::mem::MaybeUninit::uninit(); 4];
    let mut end = ReadBuf::uninit(&mut end);
    let read = std::future::poll_fn(|cx| Pin::new(&mut server).poll_read(cx, end.unfilled()));
    within(read).await.unwrap();
    assert!(end.filled().is_empty());
}
