//! Calls of gRPC: streams in both directions, trailers, statuses and health.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use ::http::{HeaderMap, Method, Response};
use bytes::Bytes;
use h2::RecvStream;

use super::support::two::{TwoClient, TwoOrigin, request, run, web_two, whole};
use super::support::{Origin, Proxy, web};

fn call(path: &str) -> ::http::request::Builder {
    request(Method::POST, path)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
}

async fn next(stream: &mut RecvStream) -> Bytes {
    let bytes = stream.data().await.unwrap().unwrap();
    stream.flow_control().release_capacity(bytes.len()).unwrap();
    bytes
}

#[test]
fn messages_pass_in_both_directions_one_at_a_time() {
    let origin = TwoOrigin::serving(100, |request, mut respond, _| async move {
        assert_eq!(request.headers()["te"], "trailers");
        let response = Response::builder().header("content-type", "application/grpc");
        let response = response.body(()).unwrap();
        let mut out = respond.send_response(response, false).unwrap();
        let mut body = request.into_body();
        while let Some(bytes) = body.data().await {
            let bytes = bytes.unwrap();
            body.flow_control().release_capacity(bytes.len()).unwrap();
            out.send_data(bytes, false).unwrap();
        }
        let mut end = HeaderMap::new();
        end.insert("grpc-status", "0".parse().unwrap());
        out.send_trailers(end).unwrap();
    });
    let proxy = Proxy::start(&web_two("", "", &[&origin]));
    run(async {
        let mut client = TwoClient::connect(proxy.address("web")).await;
        let (response, mut out) = client
            .0
            .send_request(call("/a.B/C").body(()).unwrap(), false)
            .unwrap();
        // The answer begins before the request ends.
        let mut back = response.await.unwrap().into_body();
        for message in ["one", "two", "three"] {
            out.send_data(Bytes::from(message), false).unwrap();
            assert_eq!(next(&mut back).await, message);
        }
        out.send_data(Bytes::new(), true).unwrap();
        assert!(back.data().await.is_none());
        let end = back.trailers().await.unwrap().unwrap();
        assert_eq!(end["grpc-status"], "0");
    });
}

#[test]
fn a_call_that_the_proxy_cannot_forward_has_a_status_of_grpc() {
    let origin = Origin::named("x");
    let config = web("", "", &[&origin]);
    let address = origin.address;
    drop(origin);
    let proxy = Proxy::start(&config);
    run(async {
        let mut client = TwoClient::connect(proxy.address("web")).await;
        let (response, _) = client
            .0
            .send_request(call("/a.B/C").body(()).unwrap(), true)
            .unwrap();
        let answer = whole(response.await.unwrap()).await.unwrap();
        assert_eq!((answer.status, answer.body.len()), (200, 0), "{address}");
        assert_eq!(answer.header("content-type"), Some("application/grpc"));
        assert_eq!(answer.header("grpc-status"), Some("14"), "UNAVAILABLE");
        assert!(answer.header("grpc-message").unwrap().contains("no server"));
        // Others get a status of HTTP.
        assert_eq!(client.get("/").await.status, 503);
    });
}

#[test]
fn a_server_is_up_while_its_health_service_says_so() {
    let status = Arc::new(AtomicU8::new(1));
    let said = Arc::clone(&status);
    let origin = TwoOrigin::serving(100, move |request, mut respond, _| {
        let said = said.load(Ordering::SeqCst);
        async move {
            assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
            let asked = next(&mut request.into_body()).await;
            let mut end = HeaderMap::new();
            let known = asked == [&[0, 0, 0, 0, 5, 10, 3][..], b"a.B"].concat();
            let code = if known { "0" } else { "5" };
            end.insert("grpc-status", code.parse().unwrap());
            let mut out = respond.send_response(Response::new(()), false).unwrap();
            out.send_data(vec![0, 0, 0, 0, 2, 8, said].into(), false)
                .unwrap();
            out.send_trailers(end).unwrap();
        }
    });
    let check = |service: &str| {
        format!("check = {{ kind = \"grpc\", interval = \"20ms\", service = \"{service}\" }}")
    };
    let proxy = Proxy::start(&web_two("", &check("a.B"), &[&origin]));
    proxy.until_status("app/s0", "UP");
    status.store(2, Ordering::SeqCst);
    proxy.until_status("app/s0", "DOWN");
    proxy.until_said("NOT_SERVING");
    status.store(1, Ordering::SeqCst);
    proxy.until_status("app/s0", "UP");
    let unknown = Proxy::start(&web_two("", &check("other"), &[&origin]));
    unknown.until_status("app/s0", "DOWN");
    unknown.until_said("grpc-status 5");
}
