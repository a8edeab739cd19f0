//! Clients and servers that speak HTTP/2, by the crate h2 on a runtime of the test's own.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ::http::{HeaderMap, Method, Request, Response};
use bytes::Bytes;
use evenkeel::net::{TcpListener, TcpStream};
use evenkeel::runtime::Runtime;
use evenkeel::task::JoinHandle;
use evenkeel::time::timeout;
use h2::client::SendRequest;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};

use super::LIMIT;

/// Runs what a test does with HTTP/2, which has to end in time.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async { timeout(LIMIT, future).await.expect("it does not end") })
}

/// A client's connection.
#[derive(Clone)]
pub(crate) struct TwoClient(pub(crate) SendRequest<Bytes>);

/// A whole answer.
#[derive(Debug)]
pub(crate) struct TwoAnswer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: HeaderMap,
}

impl TwoAnswer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

impl TwoClient {
    pub(crate) async fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let (send, connection) = h2::client::handshake(stream).await.unwrap();
        drop(evenkeel::spawn(connection));
        Self(send)
    }

    /// The same, with the task that ends with the connection.
    pub(crate) async fn watched(address: &str) -> (Self, JoinHandle<Result<(), h2::Error>>) {
        let stream = TcpStream::connect(address).await.unwrap();
        let (send, connection) = h2::client::handshake(stream).await.unwrap();
        (Self(send), evenkeel::spawn(connection))
    }

    pub(crate) async fn get(&mut self, path: &str) -> TwoAnswer {
        let request = request(Method::GET, path).body(()).unwrap();
        let (response, _) = self.0.send_request(request, true).unwrap();
        whole(response.await.unwrap()).await.unwrap()
    }

    /// Sends a request with a body, and the trailers that are given.
    pub(crate) async fn post(&mut self, path: &str, body: &[u8], trailers: HeaderMap) -> TwoAnswer {
        let request = request(Method::POST, path).body(()).unwrap();
        let (response, mut stream) = self.0.send_request(request, false).unwrap();
        let sent = async {
            give(&mut stream, body).await;
            // One that was refused takes no more.
            match trailers.is_empty() {
                true => drop(stream.send_data(Bytes::new(), true)),
                false => drop(stream.send_trailers(trailers)),
            }
        };
        let (response, ()) = tokio::join!(response, sent);
        whole(response.unwrap()).await.unwrap()
    }
}

/// A request to a host that everybody knows.
pub(crate) fn request(method: Method, path: &str) -> ::http::request::Builder {
    let uri = format!("http://a.example{path}");
    Request::builder().method(method).uri(uri)
}

/// Gives it to h2 as the windows allow it, until the stream is refused.
pub(crate) async fn give(stream: &mut SendStream<Bytes>, mut body: &[u8]) {
    while !body.is_empty() {
        stream.reserve_capacity(body.len().min(16 * 1_024));
        while stream.capacity() == 0 {
            let capacity = std::future::poll_fn(|cx| stream.poll_capacity(cx));
            if !matches!(capacity.await, Some(Ok(_))) {
                return;
            }
        }
        let (part, rest) = body.split_at(stream.capacity().min(body.len()));
        // One that was refused takes no more, and may be so since there was capacity.
        if stream
            .send_data(Bytes::copy_from_slice(part), false)
            .is_err()
        {
            return;
        }
        body = rest;
    }
}

/// Reads all of an answer.
pub(crate) async fn whole(response: Response<RecvStream>) -> Result<TwoAnswer, h2::Error> {
    let (parts, mut stream) = response.into_parts();
    let (body, trailers) = all_of(&mut stream).await?;
    Ok(TwoAnswer {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body,
        trailers,
    })
}

/// Reads all of a body.
pub(crate) async fn all_of(stream: &mut RecvStream) -> Result<(Vec<u8>, HeaderMap), h2::Error> {
    let mut body = Vec::new();
    while let Some(bytes) = stream.data().await {
        let bytes = bytes?;
        body.extend_from_slice(&bytes);
        stream.flow_control().release_capacity(bytes.len())?;
    }
    Ok((body, stream.trailers().await?.unwrap_or_default()))
}

type Handled = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A server, whose tasks end with it.
pub(crate) struct TwoOrigin {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
    _runtime: Runtime,
}

impl TwoOrigin {
    /// Does this with each request, of which it has so many at a time.
    pub(crate) fn serving<H, F>(streams_max: u32, handle: H) -> Self
    where
        H: Fn(Request<RecvStream>, SendResponse<Bytes>, usize) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let mut builder = h2::server::Builder::new();
        builder.max_concurrent_streams(streams_max);
        Self::built(&builder, handle)
    }

    /// The same, with connections of this sort.
    pub(crate) fn built<H, F>(builder: &h2::server::Builder, handle: H) -> Self
    where
        H: Fn(Request<RecvStream>, SendResponse<Bytes>, usize) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let builder = builder.clone();
        let runtime = Runtime::new().unwrap();
        let (connections, requests) = (Arc::default(), Arc::default());
        let counts: [Arc<AtomicUsize>; 2] = [Arc::clone(&connections), Arc::clone(&requests)];
        let handle = Arc::new(move |request, respond, number| -> Handled {
            Box::pin(handle(request, respond, number))
        });
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        drop(runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counts[0].fetch_add(1, Ordering::SeqCst);
                let (handle, requests) = (Arc::clone(&handle), Arc::clone(&counts[1]));
                let builder = builder.clone();
                drop(evenkeel::spawn(async move {
                    let Ok(mut connection) = builder.handshake(stream).await else {
                        return;
                    };
                    while let Some(Ok((request, respond))) = connection.accept().await {
                        let number = requests.fetch_add(1, Ordering::SeqCst);
                        if request.uri().path() == "/goodbye" {
                            connection.graceful_shutdown();
                        }
                        drop(evenkeel::spawn(handle(request, respond, number)));
                    }
                }));
            }
        }));
        Self {
            address,
            connections,
            requests,
            _runtime: runtime,
        }
    }

    /// Answers with the method and the path, what it got of some headers, the body and the
    /// trailers.
    pub(crate) fn echo() -> Self {
        Self::serving(100, |request, respond, _| echoed(request, respond))
    }

    /// Refuses the first requests, and answers the others.
    pub(crate) fn refusing(count: usize) -> Self {
        Self::serving(100, move |request, mut respond, number| async move {
            if number < count {
                respond.send_reset(Reason::REFUSED_STREAM);
            } else {
                echoed(request, respond).await;
            }
        })
    }

    /// How it stands in a configuration.
    pub(crate) fn config(&self, pool: &str, name: &str) -> String {
        let address = self.address;
        format!("[[pool.{pool}.server]]\nname = \"{name}\"\naddress = \"{address}\"\n")
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

async fn echoed(request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let (parts, mut incoming) = request.into_parts();
    let Ok((body, trailers)) = all_of(&mut incoming).await else {
        return;
    };
    let named = |name: &str| match parts.headers.get(name) {
        Some(value) => format!("{name}: {}\n", value.to_str().unwrap()),
        None => String::new(),
    };
    let told = [
        "x-forwarded-for",
        "x-forwarded-proto",
        "te",
        "cookie",
        "x-own",
    ];
    let head = format!("{} {}\n", parts.method, parts.uri)
        + &told.map(named).concat()
        + &format!("body of {}\n", body.len());
    let response = Response::builder().header("x-two", "yes").body(()).unwrap();
    let is_bare = parts.method == Method::HEAD;
    let Ok(mut stream) = respond.send_response(response, is_bare) else {
        return;
    };
    if is_bare {
        return;
    }
    give(&mut stream, head.as_bytes()).await;
    give(&mut stream, &body).await;
    let mut back = HeaderMap::new();
    for (name, value) in &trailers {
        back.insert(name.clone(), value.clone());
    }
    back.insert("x-end", "here".parse().unwrap());
    drop(stream.send_trailers(back));
}

/// A configuration of a listener `web` and a pool `app` that speaks HTTP/2.
pub(crate) fn web_two(more: &str, pool: &str, servers: &[&TwoOrigin]) -> String {
    let mut text = format!(
        "[listener.web]\nbind = \"127.0.0.1:0\"\nmode = \"http\"\npool = \"app\"\n{more}\n\
         [pool.app]\nprotocol = \"h2\"\n{pool}\n"
    );
    for (index, server) in servers.iter().enumerate() {
        text += &server.config("app", &format!("s{index}"));
    }
    text
}

/// A moment, for what is to be given time.
pub(crate) async fn moment() {
    evenkeel::time::sleep(Duration::from_millis(5)).await;
}
