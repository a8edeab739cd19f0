//! gRPC: `grpc serve PORT`, and `grpc ask ADDRESS`, which makes calls of every kind.

use programs::{Error, end, listen};
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::transport::{Channel, Endpoint, Server};
use tonic_health::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{FILE_DESCRIPTOR_SET, HealthCheckRequest};
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

/// So many calls and streams at once.
const AT_ONCE: usize = 32;
/// So many requests over each.
const EACH: usize = 20;
/// The status of this service changes.
const CHANGES: &str = "changes";

#[tokio::main]
async fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["serve", port] => serve(port).await,
        ["ask", address] => ask(address).await,
        _ => Err("grpc serve PORT, or grpc ask ADDRESS".into()),
    }
}

async fn serve(port: &str) -> Result<(), Error> {
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter
        .set_service_status(CHANGES, ServingStatus::Serving)
        .await;
    tokio::spawn(async move {
        for status in [ServingStatus::NotServing, ServingStatus::Serving]
            .into_iter()
            .cycle()
        {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            reporter.set_service_status(CHANGES, status).await;
        }
    });
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
        .build_v1()?;
    let incoming = TcpListenerStream::new(listen(Some(port)).await?);
    let server = Server::builder()
        .add_service(health)
        .add_service(reflection);
    Ok(server.serve_with_incoming_shutdown(incoming, end()).await?)
}

async fn ask(address: &str) -> Result<(), Error> {
    let channel = Endpoint::new(format!("http://{address}"))?
        .connect()
        .await?;
    let (mut unary, mut streams) = (Vec::new(), Vec::new());
    for _ in 0..AT_ONCE {
        unary.push(tokio::spawn(call(channel.clone())));
        streams.push(tokio::spawn(stream(channel.clone())));
    }
    let (mut serving, mut services) = (0, 0);
    for call in unary {
        serving += call.await??;
    }
    for stream in streams {
        services += stream.await??;
    }
    let changes = watch(channel.clone()).await?;
    let missing = health(channel).check(request("none")).await;
    let missing = missing
        .err()
        .ok_or("a service that is missing has a status")?;
    println!(
        "{serving} unary calls, {services} answers in streams, {changes} changes, {:?}",
        missing.code()
    );
    Ok(())
}

fn health(channel: Channel) -> HealthClient<Channel> {
    HealthClient::new(channel)
}

fn request(service: &str) -> HealthCheckRequest {
    HealthCheckRequest {
        service: service.into(),
    }
}

/// How many of the calls were answered.
async fn call(channel: Channel) -> Result<usize, Error> {
    let mut client = health(channel);
    for _ in 0..EACH {
        client.check(request(CHANGES)).await?;
    }
    Ok(EACH)
}

/// How many of the answers name the service.
async fn stream(channel: Channel) -> Result<usize, Error> {
    let list = || ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let (requests, sent) = mpsc::channel(1);
    requests.send(list()).await?;
    let answers = ServerReflectionClient::new(channel)
        .server_reflection_info(ReceiverStream::new(sent))
        .await?;
    let mut answers = answers.into_inner();
    let mut right = 0;
    for asked in 1..=EACH {
        let answer = answers.message().await?.ok_or("the stream has ended")?;
        if let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response {
            right += usize::from(
                list.service
                    .iter()
                    .any(|it| it.name == "grpc.health.v1.Health"),
            );
        }
        if asked < EACH {
            requests.send(list()).await?;
        }
    }
    Ok(right)
}

/// Waits for so many changes of a status, which the server sends when they happen.
async fn watch(channel: Channel) -> Result<usize, Error> {
    let mut statuses = health(channel).watch(request(CHANGES)).await?.into_inner();
    let mut last = statuses
        .message()
        .await?
        .ok_or("there is no status")?
        .status;
    for _ in 0..4 {
        let next = statuses
            .message()
            .await?
            .ok_or("the stream has ended")?
            .status;
        if next == last {
            return Err("a status has come that did not change".into());
        }
        last = next;
    }
    Ok(4)
}
