//! Names something of each crate, so that none is there for nothing.

use std::any::type_name;

fn main() {
    let names = [
        type_name::<actix::Recipient<Nothing>>(),
        type_name::<actix_codec::LinesCodec>(),
        type_name::<actix_rt::Runtime>(),
        type_name::<actix_server::ServerBuilder>(),
        type_name::<actix_web::HttpRequest>(),
        type_name::<async_compression::Level>(),
        type_name::<async_nats::Client>(),
        type_name::<aws_smithy_async::rt::sleep::TokioSleep>(),
        type_name::<axum::Router>(),
        type_name::<axum_server::Handle<std::net::SocketAddr>>(),
        type_name::<backon::TokioSleeper>(),
        type_name::<bb8::State>(),
        type_name::<console_subscriber::Server>(),
        type_name::<deadpool::Status>(),
        type_name::<h2::Reason>(),
        type_name::<hickory_resolver::TokioResolver>(),
        type_name::<hyper::body::Incoming>(),
        type_name::<hyper_util::rt::TokioExecutor>(),
        type_name::<jsonrpsee_server::ServerHandle>(),
        type_name::<lettre::Tokio1Executor>(),
        type_name::<metrics_exporter_prometheus::PrometheusBuilder>(),
        type_name::<mockito::Server>(),
        type_name::<mysql_async::Pool>(),
        type_name::<opentelemetry_sdk::runtime::Tokio>(),
        type_name::<poem::Route>(),
        type_name::<quinn::TokioRuntime>(),
        type_name::<redis::Client>(),
        type_name::<reqwest::Client>(),
        type_name::<rumqttc::AsyncClient>(),
        type_name::<salvo_core::Router>(),
        type_name::<sqlx::PgPool>(),
        type_name::<tarpc::context::Context>(),
        type_name::<tokio_metrics::RuntimeMonitor>(),
        type_name::<tokio_modbus::client::Context>(),
        type_name::<tokio_postgres::Client>(),
        type_name::<tokio_retry2::RetryError<()>>(),
        type_name::<tokio_rustls::TlsConnector>(),
        type_name::<tokio_socks::Error>(),
        type_name::<tokio_stream::wrappers::ReceiverStream<()>>(),
        type_name::<tokio_test::io::Mock>(),
        type_name::<tokio_tungstenite::WebSocketStream<()>>(),
        type_name::<tokio_util::sync::CancellationToken>(),
        type_name::<tonic::transport::Server>(),
        type_name::<tower::timeout::TimeoutLayer>(),
        type_name::<tower_http::timeout::TimeoutLayer>(),
        type_name::<warp::Rejection>(),
    ];
    println!("{}", names.join("\n"));
}

/// A message.
struct Nothing;

impl actix::Message for Nothing {
    type Result = ();
}
