//! `evenkeel::serve`: axum's routers and hyper's services on the runtime's sockets.
#![cfg(feature = "serve")]

mod support;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::Path;
use axum::routing::{get, post};
use axum::{Extension, Router};
use evenkeel::hyper::Executor;
use evenkeel::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use evenkeel::serve::{Listener, Peer, ServeError, Served};
use evenkeel::task::JoinHandle;
use evenkeel::time::sleep;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::service::service_fn;
use hyper::{Request, Response};
use support::{SocketPath, watch_descriptors, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{oneshot, watch};

const MS: Duration = Duration::from_millis(1);

/// Errors of a server, as text.
type Errors = Arc<Mutex<Vec<String>>>;

/// A server that runs, and the means to end it.
struct Running {
    address: SocketAddr,
    errors: Errors,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Served>,
}

impl Running {
    async fn stop(self) -> Served {
        self.stop.send(()).unwrap();
        within(self.task).await.unwrap()
    }
}

type Serve = evenkeel::serve::Serve<TcpListener, hyper_util::service::TowerToHyperService<Router>>;

async fn start(app: Router, set: impl FnOnce(Serve) -> Serve) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let errors = Errors::default();
    let noted = Arc::clone(&errors);
    let serve = evenkeel::serve(listener, app)
        .on_error(move |error| noted.lock().unwrap().push(error.to_string()))
        .with_graceful_shutdown(async { stopped.await.unwrap() });
    let task = evenkeel::spawn(set(serve).into_future());
    Running {
        address,
        errors,
        stop,
        task,
    }
}

fn app() -> Router {
    Router::new()
        .route(
            "/hello/{name}",
            get(async |Path(name): Path<String>| format!("hello {name}")),
        )
        .route("/echo", post(async |body: String| body))
        .route(
            "/peer",
            get(async |Extension(Peer(peer)): Extension<Peer<SocketAddr>>| peer.to_string()),
        )
        .route("/panic", get(async || -> String { panic!("on purpose") }))
}

/// Sends text over a connection of its own, and reads until the server ends that.
async fn talk(address: SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    // A reset is an end, too.
    let _ = stream.read_to_string(&mut answer).await;
    answer
}

async fn get_once(address: SocketAddr, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
    talk(address, &request).await
}

/// As [`get_once`], in a task of its own.
fn get_beside(address: SocketAddr, path: &'static str) -> JoinHandle<String> {
    evenkeel::spawn(async move { get_once(address, path).await })
}

type Http2 = hyper::client::conn::http2::SendRequest<Full<Bytes>>;

async fn http_2(address: SocketAddr) -> Http2 {
    let stream = TcpStream::connect(address).await.unwrap();
    let http = hyper::client::conn::http2::Builder::new(Executor);
    let (sender, connection) = http.handshake(stream).await.unwrap();
    drop(evenkeel::spawn(connection));
    sender
}

fn request_for(path: &str) -> Request<Full<Bytes>> {
    let request = Request::get(format!("http://test{path}"));
    request.body(Full::default()).unwrap()
}

#[evenkeel::test(workers = 2)]
async fn a_router_answers_over_http_1() {
    watch_descriptors();
    within(async {
        let server = start(app(), |serve| serve).await;
        let answer = get_once(server.address, "/hello/Ada").await;
        assert!(
            answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("hello Ada"),
            "{answer}"
        );
        let answer = get_once(server.address, "/missing").await;
        assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");

        // Many requests share a connection.
        let stream = TcpStream::connect(server.address).await.unwrap();
        let own = stream.local_addr().unwrap().to_string();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
        drop(evenkeel::spawn(connection));
        for round in 0..20 {
            sender.ready().await.unwrap();
            let body = Full::new(Bytes::from(vec![b'x'; round * 1_000]));
            let answer = sender
                .send_request(Request::post("/echo").body(body).unwrap())
                .await;
            let body = answer.unwrap().collect().await.unwrap().to_bytes();
            assert_eq!(body.len(), round * 1_000);
        }
        sender.ready().await.unwrap();
        let request = Request::get("/peer").body(Full::default()).unwrap();
        let answer = sender.send_request(request).await.unwrap();
        assert_eq!(answer.collect().await.unwrap().to_bytes(), own);
        drop(sender);

        let errors = Arc::clone(&server.errors);
        let served = server.stop().await;
        assert_eq!((served.connections, served.cut_off), (3, 0));
        assert!(errors.lock().unwrap().is_empty(), "{errors:?}");
    })
    .await;
}

#[evenkeel::test(workers = 2)]
async fn a_router_answers_over_http_2() {
    watch_descriptors();
    within(async {
        let server = start(app(), |serve| serve).await;
        let sender = http_2(server.address).await;
        let mut answers = Vec::new();
        for number in 0..50 {
            let mut sender = sender.clone();
            answers.push(evenkeel::spawn(async move {
                let uri = format!("http://test/hello/{number}");
                let request = Request::get(uri).body(Full::<Bytes>::default()).unwrap();
                let answer = sender.send_request(request).await.unwrap();
                answer.collect().await.unwrap().to_bytes()
            }));
        }
        for (number, answer) in answers.into_iter().enumerate() {
            assert_eq!(answer.await.unwrap(), format!("hello {number}"));
        }
        drop(sender);
        assert_eq!(server.stop().await.connections, 1);
    })
    .await;
}

#[evenkeel::test(workers = 1)]
async fn a_service_of_hypers_answers_on_a_unix_socket() {
    watch_descriptors();
    within(async {
        let path = SocketPath::new("serve");
        let listener = UnixListener::bind(&path).unwrap();
        let service = service_fn(async |_| Ok::<_, Infallible>(Response::new("hello".to_owned())));
        let serving = evenkeel::serve::serve_hyper(listener, service).into_future();
        let task = evenkeel::spawn(serving);
        let mut stream = UnixStream::connect(&path).await.unwrap();
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("hello"), "{answer}");
        // Without a shutdown it goes on until it is dropped, which cuts all off.
        let mut open = UnixStream::connect(&path).await.unwrap();
        open.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        open.readable().await.unwrap();
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        open.read_to_end(&mut Vec::new()).await.unwrap();
        UnixStream::connect(&path).await.unwrap_err();
    })
    .await;
}

/// Silence, a head that stays unfinished, the beginning of HTTP/2, and an idle connection.
#[evenkeel::test(workers = 1)]
async fn a_client_that_sends_no_head_is_cut_off() {
    watch_descriptors();
    within(async {
        let server = start(app(), |serve| serve.header_read_timeout(Some(20 * MS))).await;
        for text in [
            "",
            "P",
            "GET /hello/x HTTP/1.1\r\nhost:",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        ] {
            let answer = within(talk(server.address, text)).await;
            assert!(!answer.contains("200 OK"), "{text}: {answer}");
        }
        // They are reported a moment after the client has heard of it.
        while server.errors.lock().unwrap().len() < 4 {
            sleep(MS).await;
        }
        let idle = "GET /hello/x HTTP/1.1\r\nhost: test\r\n\r\n";
        // One whose head was late, as this thread was not scheduled, is cut off as well.
        let answered = async { while !talk(server.address, idle).await.ends_with("hello x") {} };
        within(answered).await;
        assert_eq!(server.stop().await.cut_off, 0);
    })
    .await;
}

#[evenkeel::test(workers = 1)]
async fn limits_that_no_clock_reaches_are_none() {
    watch_descriptors();
    within(async {
        let set = |serve: Serve| {
            let serve = serve.header_read_timeout(Some(Duration::MAX));
            serve.drain_limit(Duration::MAX)
        };
        let server = start(app(), set).await;
        let answer = get_once(server.address, "/hello/x").await;
        assert!(answer.ends_with("hello x"), "{answer}");
        let errors = Arc::clone(&server.errors);
        assert_eq!(server.stop().await.cut_off, 0);
        assert!(errors.lock().unwrap().is_empty(), "{errors:?}");
    })
    .await;
}

#[evenkeel::test(workers = 2)]
async fn no_more_connections_are_served_at_once_than_allowed() {
    watch_descriptors();
    within(async {
        static NOW: AtomicUsize = AtomicUsize::new(0);
        static MOST: AtomicUsize = AtomicUsize::new(0);
        let count = async || {
            MOST.fetch_max(NOW.fetch_add(1, SeqCst) + 1, SeqCst);
            sleep(5 * MS).await;
            NOW.fetch_sub(1, SeqCst);
        };
        let app = Router::new().route("/", get(count));
        let server = start(app, |serve| serve.max_connections(3)).await;
        let clients: Vec<_> = (0..20).map(|_| get_beside(server.address, "/")).collect();
        for client in clients {
            assert!(client.await.unwrap().starts_with("HTTP/1.1 200 OK"));
        }
        assert_eq!(MOST.load(SeqCst), 3);
        assert_eq!(server.stop().await.connections, 20);
    })
    .await;
}

#[evenkeel::test(workers = 2)]
async fn a_shutdown_finishes_what_is_under_way() {
    watch_descriptors();
    within(async {
        let (open, opened) = watch::channel(false);
        let begun = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&begun);
        let slow = async move || {
            counted.fetch_add(1, SeqCst);
            opened.clone().wait_for(|open| *open).await.unwrap();
            "finished"
        };
        let server = start(Router::new().route("/", get(slow)), |serve| serve).await;
        let address = server.address;
        // One that says nothing yet, and one whose connection stays open behind its answer.
        let mut idle = TcpStream::connect(address).await.unwrap();
        let request = "GET / HTTP/1.1\r\nhost: test\r\n\r\n";
        let busy = evenkeel::spawn(async move { talk(address, request).await });
        while begun.load(SeqCst) == 0 {
            sleep(MS).await;
        }
        let ended = evenkeel::spawn(server.stop());
        assert_eq!(
            idle.read(&mut [0]).await.unwrap(),
            0,
            "an idle one ends at once"
        );
        // The listener is closed while a request is under way.
        while TcpStream::connect(address).await.is_ok() {
            sleep(MS).await;
        }
        assert!(!ended.is_finished());
        open.send(true).unwrap();
        assert!(busy.await.unwrap().ends_with("finished"));
        assert_eq!(ended.await.unwrap().cut_off, 0);
    })
    .await;
}

#[evenkeel::test(workers = 2)]
async fn a_shutdown_cuts_off_what_is_late() {
    watch_descriptors();
    within(async {
        let (tell, mut told) = tokio::sync::mpsc::channel(1);
        let hang = async move || {
            tell.send(()).await.unwrap();
            std::future::pending::<()>().await;
        };
        let app = Router::new().route("/", get(hang));
        let server = start(app, |serve| serve.drain_limit(20 * MS)).await;
        let client = get_beside(server.address, "/");
        told.recv().await.unwrap();
        let served = server.stop().await;
        assert_eq!((served.connections, served.cut_off), (1, 1));
        assert_eq!(client.await.unwrap(), "");
    })
    .await;
}

/// In the middle of a head, of a body, of an answer that it does not read, and of its next head.
#[evenkeel::test(workers = 2)]
async fn a_shutdown_cuts_off_clients_that_stall() {
    watch_descriptors();
    within(async {
        let much = || async { vec![b'x'; 64 * 1024 * 1024] };
        let app = app().route("/much", get(much));
        let server = start(app, |serve| serve.drain_limit(20 * MS)).await;
        let mut clients = Vec::new();
        for (text, answer) in [
            ("GET /hello/x HTTP/1.1\r\nhost: te", ""),
            (
                "POST /echo HTTP/1.1\r\nhost: test\r\ncontent-length: 9\r\n\r\nhal",
                "",
            ),
            (
                "GET /much HTTP/1.1\r\nhost: test\r\n\r\n",
                "HTTP/1.1 200 OK",
            ),
            (
                "GET /hello/x HTTP/1.1\r\nhost: test\r\n\r\nGET",
                "HTTP/1.1 200 OK",
            ),
        ] {
            let mut client = TcpStream::connect(server.address).await.unwrap();
            client.write_all(text.as_bytes()).await.unwrap();
            let mut begun = vec![0; answer.len()];
            client.read_exact(&mut begun).await.unwrap();
            assert_eq!(begun, answer.as_bytes());
            clients.push(client);
        }
        // One more has been answered, so the server has seen what the first have sent.
        get_once(server.address, "/hello/x").await;
        let served = server.stop().await;
        assert_eq!(served.connections, 5);
        assert!(served.cut_off >= 2, "{served:?}");
        for mut client in clients {
            // A reset is an end, too.
            let _ = client.read_to_end(&mut Vec::new()).await;
        }
    })
    .await;
}

#[evenkeel::test(workers = 2)]
async fn a_handler_that_never_returns_does_not_hold_up_the_end() {
    watch_descriptors();
    within(async {
        let (release, released) = std::sync::mpsc::channel::<()>();
        let released = Arc::new(Mutex::new(released));
        let (tell, mut told) = tokio::sync::mpsc::channel(1);
        let block = async move || {
            tell.send(()).await.unwrap();
            let _ = released.lock().unwrap().recv();
        };
        let app = Router::new().route("/", get(block));
        let server = start(app, |serve| serve.drain_limit(20 * MS)).await;
        let client = get_beside(server.address, "/");
        told.recv().await.unwrap();
        let served = server.stop().await;
        assert_eq!((served.connections, served.cut_off), (1, 1));
        assert!(!client.is_finished());
        // Now its poll ends, and may still answer; then its connection ends.
        drop(release);
        client.await.unwrap();
    })
    .await;
}

#[evenkeel::test(workers = 2)]
async fn a_handler_that_panics_ends_its_connection_alone() {
    watch_descriptors();
    within(async {
        let server = start(app(), |serve| serve).await;
        assert_eq!(get_once(server.address, "/panic").await, "");
        assert!(
            get_once(server.address, "/hello/x")
                .await
                .ends_with("hello x")
        );
        let errors = Arc::clone(&server.errors);
        assert_eq!(server.stop().await.connections, 2);
        let errors = errors.lock().unwrap().join("; ");
        assert!(errors.contains("panic"), "{errors}");
    })
    .await;
}

/// Over HTTP/2 each request has a task of its own.
#[evenkeel::test(workers = 2)]
async fn a_request_over_http_2_that_panics_is_reported_and_ends_alone() {
    watch_descriptors();
    within(async {
        let server = start(app(), |serve| serve).await;
        let mut sender = http_2(server.address).await;
        let get = |path: &str| {
            let request = Request::get(format!("http://test{path}"));
            request.body(Full::<Bytes>::default()).unwrap()
        };
        sender.send_request(get("/panic")).await.unwrap_err();
        let answer = sender.send_request(get("/hello/x")).await.unwrap();
        let body = answer.collect().await.unwrap().to_bytes();
        assert_eq!(body, "hello x");
        while server.errors.lock().unwrap().is_empty() {
            sleep(MS).await;
        }
        let errors = server.errors.lock().unwrap().join("; ");
        assert!(errors.contains("on purpose"), "{errors}");
        drop(sender);
        assert_eq!(server.stop().await.cut_off, 0);
    })
    .await;
}

#[evenkeel::test(workers = 2)]
async fn a_request_over_http_2_that_is_late_is_dropped_with_its_connection() {
    watch_descriptors();
    within(async {
        let held = Arc::new(());
        let (tell, mut told) = tokio::sync::mpsc::channel(1);
        let holds = Arc::clone(&held);
        let hang = async move || {
            let _holds = holds;
            tell.send(()).await.unwrap();
            std::future::pending::<()>().await;
        };
        let app = Router::new().route("/", get(hang));
        let server = start(app, |serve| serve.drain_limit(20 * MS)).await;
        let mut sender = http_2(server.address).await;
        let request = Request::get("http://test/").body(Full::<Bytes>::default());
        let answer = evenkeel::spawn(sender.send_request(request.unwrap()));
        told.recv().await.unwrap();
        assert_eq!(server.stop().await.cut_off, 1);
        answer.await.unwrap().unwrap_err();
        while Arc::strong_count(&held) > 1 {
            sleep(MS).await;
        }
    })
    .await;
}

/// The client is told how many, and keeps to it.
#[evenkeel::test(workers = 2)]
async fn no_more_requests_share_a_connection_than_allowed() {
    watch_descriptors();
    within(async {
        let now = Arc::new(AtomicUsize::new(0));
        let most = Arc::new(AtomicUsize::new(0));
        let (open, opened) = watch::channel(false);
        let (counted, seen) = (Arc::clone(&now), Arc::clone(&most));
        let count = async move || {
            seen.fetch_max(counted.fetch_add(1, SeqCst) + 1, SeqCst);
            opened.clone().wait_for(|open| *open).await.unwrap();
            counted.fetch_sub(1, SeqCst);
        };
        let app = app().route("/count", get(count));
        let server = start(app, |serve| serve.max_concurrent_streams(3)).await;
        let mut sender = http_2(server.address).await;
        // With its answer the client knows the limit.
        sender.send_request(request_for("/hello/x")).await.unwrap();
        let answers: Vec<_> = (0..10)
            .map(|_| evenkeel::spawn(sender.send_request(request_for("/count"))))
            .collect();
        while now.load(SeqCst) < 3 {
            sleep(MS).await;
        }
        sleep(20 * MS).await;
        open.send(true).unwrap();
        for answer in answers {
            assert!(answer.await.unwrap().unwrap().status().is_success());
        }
        assert_eq!(most.load(SeqCst), 3);
        drop(sender);
        assert_eq!(server.stop().await.cut_off, 0);
    })
    .await;
}

#[evenkeel::test(workers = 2)]
async fn a_shutdown_does_not_wait_long_for_the_first_head() {
    watch_descriptors();
    within(async {
        let set = |serve: Serve| {
            let serve = serve.header_read_timeout(None);
            serve.drain_limit(Duration::MAX)
        };
        let server = start(app(), set).await;
        let mut clients = Vec::new();
        for text in [
            "",
            "P",
            "PRI * HTTP/2.0\r\n\r\nSM",
            "GET / HTTP/1.1\r\nhost: te",
        ] {
            let mut client = TcpStream::connect(server.address).await.unwrap();
            client.write_all(text.as_bytes()).await.unwrap();
            clients.push(client);
        }
        // One more has been answered, so the server has seen what the others have sent.
        get_once(server.address, "/hello/x").await;
        let errors = Arc::clone(&server.errors);
        assert_eq!(server.stop().await.cut_off, 0);
        assert_eq!(
            *errors.lock().unwrap(),
            [""; 0],
            "an ordinary end is no error"
        );
    })
    .await;
}

/// A handler that is in a poll while its client goes.
#[evenkeel::test(workers = 2)]
async fn a_shutdown_waits_for_requests_over_http_2_whose_client_has_gone() {
    watch_descriptors();
    within(async {
        let (app, mut blocked) = blocking_app();
        let server = start(app, |serve| serve).await;
        let mut sender = http_2(server.address).await;
        let answer = evenkeel::spawn(sender.send_request(request_for("/")));
        blocked.begun.recv().await.unwrap();
        // Without these its connection ends.
        drop(sender);
        answer.abort();
        let ended = evenkeel::spawn(server.stop());
        // For longer than the second for which those that are cut off are waited for.
        for _ in 0..60 {
            sleep(20 * MS).await;
            assert!(!ended.is_finished());
        }
        drop(blocked.release);
        let served = ended.await.unwrap();
        assert_eq!((served.connections, served.cut_off), (1, 0));
        assert_eq!(Arc::strong_count(&blocked.held), 1);
    })
    .await;
}

/// As a handler over HTTP/1 is, whose connection is its task.
#[evenkeel::test(workers = 2)]
async fn a_request_over_http_2_that_is_cut_off_is_waited_for_a_moment() {
    watch_descriptors();
    within(async {
        let (app, mut blocked) = blocking_app();
        let server = start(app, |serve| serve.drain_limit(20 * MS)).await;
        let mut sender = http_2(server.address).await;
        let answer = sender.send_request(request_for("/"));
        let release = blocked.release;
        let client = evenkeel::spawn(async move {
            answer.await.unwrap_err();
            sleep(50 * MS).await;
            drop(release);
        });
        blocked.begun.recv().await.unwrap();
        let began = std::time::Instant::now();
        let served = server.stop().await;
        assert_eq!((served.connections, served.cut_off), (1, 1));
        // On a busy machine the moment, which is a second, may have passed.
        let is_left_behind = Arc::strong_count(&blocked.held) > 1;
        assert!(!is_left_behind || began.elapsed() >= 1_000 * MS);
        client.await.unwrap();
    })
    .await;
}

/// A handler that blocks in its poll, until `release` is dropped; it holds `held`.
struct Blocked {
    begun: tokio::sync::mpsc::Receiver<()>,
    release: std::sync::mpsc::Sender<()>,
    held: Arc<()>,
}

fn blocking_app() -> (Router, Blocked) {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let (tell, begun) = tokio::sync::mpsc::channel(1);
    let held = Arc::new(());
    // The router has a reference to this one, and the handler to `held` alone.
    let to_hold = Arc::downgrade(&held);
    let block = async move || {
        let _holds = to_hold.upgrade();
        tell.send(()).await.unwrap();
        let _ = released.lock().unwrap().recv();
    };
    let blocked = Blocked {
        begun,
        release,
        held,
    };
    (Router::new().route("/", get(block)), blocked)
}

/// Fails a few times before each connection.
struct Failing {
    listener: TcpListener,
    failures: usize,
}

impl Listener for Failing {
    type Io = TcpStream;
    type Address = SocketAddr;

    async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        if self.failures > 0 {
            self.failures -= 1;
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        self.listener.accept().await
    }
}

#[evenkeel::test(workers = 1)]
async fn errors_of_accepting_neither_end_the_server_nor_make_it_spin() {
    watch_descriptors();
    within(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let failing = Failing {
            listener,
            failures: 4,
        };
        let errors = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&errors);
        let began = std::time::Instant::now();
        let serve = evenkeel::serve(failing, app()).on_error(move |error| match error {
            ServeError::Accept(error) => noted.lock().unwrap().push(error.raw_os_error()),
            other => panic!("{other}"),
        });
        let task = evenkeel::spawn(serve.into_future());
        assert!(get_once(address, "/hello/x").await.ends_with("hello x"));
        assert_eq!(*errors.lock().unwrap(), [Some(libc::EMFILE); 4]);
        // It waited for 10, 20, 40 and 80 ms. A busy machine only makes it longer.
        assert!(began.elapsed() >= 150 * MS);
        task.abort();
    })
    .await;
}

/// The pauses grow to a second, and the end waits for none.
#[evenkeel::test(workers = 1)]
async fn a_shutdown_ends_a_server_that_cannot_accept() {
    watch_descriptors();
    within(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let failing = Failing {
            listener,
            failures: usize::MAX,
        };
        let failed = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&failed);
        let (stop, stopped) = oneshot::channel();
        let serve = evenkeel::serve(failing, app())
            .on_error(move |_| _ = counted.fetch_add(1, SeqCst))
            .with_graceful_shutdown(async { stopped.await.unwrap() });
        let task = evenkeel::spawn(serve.into_future());
        while failed.load(SeqCst) < 3 {
            sleep(MS).await;
        }
        stop.send(()).unwrap();
        assert_eq!(task.await.unwrap(), Served::default());
    })
    .await;
}
