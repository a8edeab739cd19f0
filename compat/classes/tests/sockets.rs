//! A service of axum's on Evenkeel's own sockets beneath Tokio, by what hyper-util has for Tokio's:
//! the sockets have Tokio's traits, but not hyper's.

use std::time::Duration;

use classes::{ask, routes};
use evenkeel::{Class, runtime::Handle};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;

/// Longer than any test takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn hyper_takes_evenkeels_sockets_as_it_takes_tokios() {
    if Handle::try_current().is_err() {
        return;
    }
    let listener = evenkeel::net::TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap();
    let to = listener.local_addr().unwrap();
    let server = evenkeel::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let service = TowerToHyperService::new(routes());
        let http = auto::Builder::new(TokioExecutor::new());
        http.serve_connection(TokioIo::new(stream), service)
            .await
            .unwrap();
    });
    let answer = tokio::time::timeout(LIMIT, ask(to, "/export", ""))
        .await
        .unwrap();
    assert_eq!(answer.unwrap(), format!("{:?}", Some(Class::BULK)));
    tokio::time::timeout(LIMIT, server).await.unwrap().unwrap();
}
