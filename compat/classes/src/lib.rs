//! The service: a health check that is urgent, exports that are bulk work, tenants that are one or
//! the other, and work in classes of its own.

use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::routing::get;
use evenkeel::runtime::Handle;
use evenkeel::{Class, task};
use evenkeel_tower::ClassLayer;
use evenkeel_tower::axum::{HasClass, InClass};

/// How long an export computes.
pub const EXPORT: Duration = Duration::from_millis(30);

/// Who asks.
struct Tenant {
    pays: bool,
}

impl HasClass for Tenant {
    fn class(&self) -> Option<Class> {
        (!self.pays).then_some(Class::BULK)
    }
}

impl<S: Sync> FromRequestParts<S> for Tenant {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let pays = parts.headers.contains_key("x-paid");
        Ok(Self { pays })
    }
}

/// The class of the task that serves a request, as a request's answer names it.
fn class() -> String {
    format!("{:?}", task::class())
}

/// Computes, and gives way now and then.
async fn export() -> String {
    for _ in 0..100 {
        let began = Instant::now();
        while began.elapsed() < EXPORT / 100 {}
        tokio::task::yield_now().await;
    }
    class()
}

/// What the service does for each path.
pub fn routes() -> Router {
    let health = Router::new()
        .route("/health", get(async || class()))
        .route_layer(ClassLayer::new(Class::URGENT));
    let export = Router::new()
        .route("/export", get(export))
        .route_layer(ClassLayer::new(Class::BULK));
    let spawns = async || tokio::spawn(async { class() }).await.unwrap_or_default();
    let spawns = Router::new()
        .route("/spawn", get(spawns))
        .route_layer(ClassLayer::new(Class::BULK));
    let plain = Router::new().route("/plain", get(async || class()));
    let report = async |InClass(tenant): InClass<Tenant>| format!("{} {}", tenant.pays, class());
    let tenants = Router::new()
        .route("/report", get(report))
        .layer(ClassLayer::new(|_: &axum::extract::Request| None));
    Router::new()
        .merge(health)
        .merge(export)
        .merge(spawns)
        .merge(plain)
        .merge(tenants)
}

/// The class that the operator has for a plan, by its name. A service has the plan from its own
/// records: who may put it into a request may ask for `urgent`.
fn class_of_plan(request: &axum::extract::Request) -> Option<Class> {
    let plan = request.headers().get("x-plan")?.to_str().ok()?;
    Handle::try_current().ok()?.class(plan)
}

/// What has a class that is not built in: `video`, and whatever the operator has added.
pub fn own_routes(video: Class) -> Router {
    let video = Router::new()
        .route("/video", get(async || class()))
        .route_layer(ClassLayer::new(video));
    let plans = Router::new()
        .route("/plan", get(async || class()))
        .route_layer(ClassLayer::new(class_of_plan));
    video.merge(plans)
}

/// Starts a service, and asks it once.
///
/// # Errors
///
/// Those of the connection.
pub async fn answer(service: Router, path: &str, head: &str) -> std::io::Result<String> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let to = listener.local_addr()?;
    let server = tokio::spawn(async move { axum::serve(listener, service).await });
    let answer = ask(to, path, head).await;
    server.abort();
    answer
}

/// A request, and the body of its answer.
///
/// # Errors
///
/// Those of the connection.
pub async fn ask(to: std::net::SocketAddr, path: &str, head: &str) -> std::io::Result<String> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let mut stream = tokio::net::TcpStream::connect(to).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n{head}\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let body = answer.split_once("\r\n\r\n").unwrap_or_default().1;
    Ok(body.to_owned())
}
