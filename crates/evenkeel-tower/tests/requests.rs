//! Requests in classes: in one task, over a connection that is kept, and with axum's extractor.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::routing::get;
use evenkeel::net::{TcpListener, TcpStream};
use evenkeel::runtime::{Builder, Runtime};
use evenkeel::task::{self, yield_now};
use evenkeel::{Class, time};
use evenkeel_tower::axum::{HasClass, InClass};
use evenkeel_tower::{ClassLayer, enter};
use http::request::Parts;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper_util::service::TowerToHyperService;
use tower::{Layer, ServiceExt, service_fn};

/// Longer than any test takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

fn runtime() -> Runtime {
    Builder::new().workers(1).build().expect("it starts")
}

/// Runs a future as a task of class `NORMAL`.
fn in_task<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
    let runtime = runtime();
    let task = runtime.spawn(future);
    let ended = runtime.block_on(time::timeout(LIMIT, task));
    ended.expect("in time").expect("it does not panic")
}

fn request(path: &str) -> Request<Body> {
    let request = Request::builder().uri(path).header("host", "test");
    request.body(Body::empty()).expect("it is valid")
}

/// Says in its body in which class it is.
async fn tell(_: Request<Body>) -> Result<Response<Body>, Infallible> {
    Ok(Response::new(Body::from(format!("{:?}", task::class()))))
}

fn told(class: Class) -> String {
    format!("{:?}", Some(class))
}

async fn text(answer: Response<impl http_body::Body<Error: std::fmt::Debug>>) -> String {
    let whole = answer.into_body().collect().await.expect("it is whole");
    String::from_utf8(whole.to_bytes().into()).expect("it is text")
}

#[test]
fn a_request_is_in_its_class_until_its_body_has_ended() {
    in_task(async {
        let service = ClassLayer::new(Class::BULK).layer(service_fn(tell));
        let answer = service.oneshot(request("/")).await.expect("it answers");
        assert_eq!(task::class(), Some(Class::BULK), "the body is to come");
        assert_eq!(text(answer).await, told(Class::BULK));
        assert_eq!(task::class(), Some(Class::NORMAL));
    });
}

#[test]
fn a_request_gives_way_once_if_its_class_is_another() {
    let polls_in = |class: Class| {
        let runtime = runtime();
        let task = runtime.spawn(async move {
            let service = ClassLayer::new(class).layer(service_fn(tell));
            drop(service.oneshot(request("/")).await);
        });
        runtime.block_on(task).expect("it does not panic");
        let classes = runtime.stats().classes;
        let polls: Vec<_> = classes.iter().map(|class| class.polls).collect();
        polls
    };
    assert_eq!(polls_in(Class::URGENT), [1, 1, 0]);
    assert_eq!(polls_in(Class::NORMAL), [0, 1, 0]);
}

#[test]
fn what_ends_early_ends_the_stay() {
    in_task(async {
        let layer = ClassLayer::new(Class::BULK);
        let answer = layer.layer(service_fn(tell)).oneshot(request("/")).await;
        drop(answer);
        assert_eq!(task::class(), Some(Class::NORMAL), "the body was dropped");

        let fails = service_fn(async |_: Request<Body>| Err::<Response<Body>, _>("broken"));
        layer
            .layer(fails)
            .oneshot(request("/"))
            .await
            .expect_err("it fails");
        assert_eq!(task::class(), Some(Class::NORMAL), "the service failed");

        let waits = service_fn(async |_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, Infallible>>().await
        });
        let call = layer.layer(waits).oneshot(request("/"));
        let waited = time::timeout(Duration::from_millis(1), call).await;
        waited.expect_err("it waits for ever");
        assert_eq!(task::class(), Some(Class::NORMAL), "the future was dropped");
    });
}

#[test]
fn layers_within_layers_end_in_turn() {
    in_task(async {
        let inner = ClassLayer::new(Class::BULK).layer(service_fn(tell));
        let outer = ClassLayer::new(Class::URGENT).layer(inner);
        let answer = outer.oneshot(request("/")).await.expect("it answers");
        assert_eq!(text(answer).await, told(Class::BULK));
        assert_eq!(task::class(), Some(Class::NORMAL));
    });
}

#[test]
fn a_layer_without_a_class_ends_what_the_service_did_to_it() {
    in_task(async {
        let enters = service_fn(async |request| {
            enter(Class::BULK).await;
            tell(request).await
        });
        let service = ClassLayer::new(|_: &Request<Body>| None).layer(enters);
        let answer = service.oneshot(request("/")).await.expect("it answers");
        assert_eq!(text(answer).await, told(Class::BULK));
        assert_eq!(task::class(), Some(Class::NORMAL));
    });
}

#[test]
fn a_body_that_another_task_takes_changes_nothing_there() {
    in_task(async {
        let service = ClassLayer::new(Class::URGENT).layer(service_fn(tell));
        let answer = service.oneshot(request("/")).await.expect("it answers");
        let other = evenkeel::spawn_in(Class::BULK, async {
            let text = text(answer).await;
            (text, task::class())
        });
        let (text, class) = other.await.expect("it does not panic");
        assert_eq!(text, told(Class::URGENT));
        assert_eq!(class, Some(Class::BULK));
    });
}

#[test]
fn outside_tasks_requests_are_served_without_a_class() {
    runtime().block_on(async {
        let service = ClassLayer::new(Class::BULK).layer(service_fn(tell));
        let answer = service.oneshot(request("/")).await.expect("it answers");
        assert_eq!(text(answer).await, "None");
        enter(Class::BULK).await;
    });
}

struct Tenant;

impl HasClass for Tenant {
    fn class(&self) -> Option<Class> {
        Some(Class::BULK)
    }
}

impl<S: Sync> FromRequestParts<S> for Tenant {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Tenant)
    }
}

/// What a handler sees of its class, also after it has waited, and in what it spawns.
async fn seen() -> String {
    let first = task::class();
    yield_now().await;
    let spawned = evenkeel::spawn(async { task::class() }).await;
    assert_eq!(first, task::class());
    assert_eq!(first, spawned.expect("it does not panic"));
    format!("{first:?}")
}

/// Serves one connection, and asks for these paths over it, one after another.
async fn ask(service: Router, paths: &[&str]) -> Vec<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let server = evenkeel::spawn(async move {
        let (stream, _) = listener.accept().await.expect("one comes");
        let service = TowerToHyperService::new(service);
        let http = hyper::server::conn::http1::Builder::new();
        http.serve_connection(stream, service).await
    });
    let stream = TcpStream::connect(address).await.expect("it listens");
    let shaken = hyper::client::conn::http1::handshake(stream).await;
    let (mut sender, connection) = shaken.expect("it speaks HTTP");
    let connection = evenkeel::spawn(connection);
    let mut answers = Vec::new();
    for path in paths {
        let answer = sender.send_request(request(path)).await;
        answers.push(text(answer.expect("it answers")).await);
    }
    drop(sender);
    connection.await.expect("no panic").expect("a good end");
    server.await.expect("no panic").expect("a good end");
    answers
}

#[test]
fn requests_of_one_connection_are_each_in_their_class() {
    let answers = in_task(async {
        let service = Router::new()
            .route("/bulk", get(seen).layer(ClassLayer::new(Class::BULK)))
            .route("/urgent", get(seen).layer(ClassLayer::new(Class::URGENT)))
            .route("/tenant", get(async |_: InClass<Tenant>| seen().await))
            .route("/", get(seen))
            .layer(ClassLayer::new(|_: &Request<Body>| None));
        let paths = ["/", "/bulk", "/", "/urgent", "/tenant", "/"];
        ask(service, &paths).await
    });
    let (normal, bulk, urgent) = (Class::NORMAL, Class::BULK, Class::URGENT);
    let classes = [normal, bulk, normal, urgent, bulk, normal];
    assert_eq!(answers, classes.map(told));
}
