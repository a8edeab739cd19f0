//! A chromium that a test steers by its debugging protocol.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use evenkeel::net::TcpStream;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

/// How long anything in it may take: it is large, and a busy machine starts it slowly.
const PATIENCE: Duration = Duration::from_secs(60);

/// The browser, until this is dropped.
pub(crate) struct Browser {
    child: Child,
    socket: WebSocketStream<TcpStream>,
    /// The page that is open.
    session: Option<String>,
    id: u64,
    /// Removed last, when the browser has ended.
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts one. `None` if it is not installed.
    pub(crate) async fn begin() -> Option<Self> {
        let profile = tempfile::tempdir().unwrap();
        let started = Command::new("chromium")
            .args(["--headless=new", "--no-sandbox", "--disable-gpu"])
            .args([
                "--autoplay-policy=no-user-gesture-required",
                "--remote-debugging-port=0",
                // Where there is no other network, WebRTC is to find this one.
                "--allow-loopback-in-peer-connection",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn();
        let mut child = match started {
            Ok(child) => child,
            Err(error) => {
                eprintln!("chromium cannot be started, so the page is not looked at: {error}");
                return None;
            }
        };
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let address = evenkeel::spawn_blocking(move || {
            let mut line = String::new();
            while errors.read_line(&mut line).is_ok_and(|read| read > 0) {
                if let Some(address) = line.trim().strip_prefix("DevTools listening on ") {
                    let address = address.to_owned();
                    // What it complains of later is taken, so that it never waits.
                    std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
                    return address;
                }
                line.clear();
            }
            panic!("chromium does not say where it listens");
        });
        let address = evenkeel::time::timeout(PATIENCE, address).await;
        let address = address.unwrap().unwrap();
        let host = address.trim_start_matches("ws://").split('/').next();
        let stream = TcpStream::connect(host.unwrap()).await.unwrap();
        let (socket, _) = client_async(&address, stream).await.unwrap();
        Some(Self {
            child,
            socket,
            session: None,
            id: 0,
            _profile: profile,
        })
    }

    /// Opens a page.
    pub(crate) async fn open(&mut self, url: &str) {
        self.session = None;
        let target = self
            .call("Target.createTarget", json!({ "url": url }))
            .await;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = self.call("Target.attachToTarget", attach).await;
        self.session = attached["sessionId"].as_str().map(str::to_owned);
    }

    /// What an expression is in the page.
    pub(crate) async fn ask(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", asked).await;
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub(crate) async fn until(&mut self, expression: &str) {
        let began = Instant::now();
        while self.ask(expression).await != Value::Bool(true) {
            if began.elapsed() > PATIENCE {
                let page = self.ask("document.documentElement.outerHTML").await;
                panic!("{expression} is never true in {page}");
            }
            evenkeel::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.id += 1;
        let mut call = json!({ "id": self.id, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            call["sessionId"] = json!(session);
        }
        let call = Message::text(call.to_string());
        self.socket.send(call).await.unwrap();
        loop {
            let next = evenkeel::time::timeout(PATIENCE, self.socket.next()).await;
            let message = next.unwrap().unwrap().unwrap();
            let Ok(text) = message.to_text() else {
                continue;
            };
            // Events of the browser are in between.
            let said: Value = serde_json::from_str(text).unwrap_or(Value::Null);
            if said["id"] == json!(self.id) {
                return said["result"].clone();
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
