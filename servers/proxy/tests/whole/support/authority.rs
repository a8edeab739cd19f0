//! A small authority that speaks ACME: what it issues is signed by an authority of the test.
//!
//! It verifies what a public one does, but for signatures: nonces are used once, challenges are
//! fetched from the proxy by HTTP or TLS and belong to the account, and orders go through their
//! states.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::origin::Asked;
use super::secured::asked_by_acme;
use super::{Authority, Origin, Reply, until};

/// The authority, as a server of HTTP.
pub(crate) struct AcmeServer {
    origin: Origin,
    state: Arc<Mutex<State>>,
    pub(crate) authority: Arc<Authority>,
}

struct State {
    url: String,
    /// Where the challenges are fetched, when it is known.
    proxy: Option<String>,
    nonces: Vec<String>,
    made: usize,
    thumbprint: String,
    accounts: usize,
    contacts: Value,
    orders: Vec<Order>,
    /// From and until when certificates hold.
    years: [i32; 2],
    /// What it says instead of letting somebody have a name.
    refuses: Option<&'static str>,
    /// Certificates are held back.
    holds: bool,
    /// A challenge waits until it is known where.
    waits: bool,
}

struct Order {
    names: Vec<String>,
    is_valid: Vec<bool>,
    error: Option<Value>,
    certificate: Option<String>,
}

impl AcmeServer {
    /// One whose certificates hold for so long.
    pub(crate) fn start(years: [i32; 2]) -> Self {
        let authority = Arc::new(Authority::new("acme"));
        let state = Arc::new(Mutex::new(State {
            url: String::new(),
            proxy: None,
            nonces: Vec::new(),
            made: 0,
            thumbprint: String::new(),
            accounts: 0,
            contacts: Value::Null,
            orders: Vec::new(),
            years,
            refuses: None,
            holds: false,
            waits: false,
        }));
        let (known, signer) = (Arc::clone(&state), Arc::clone(&authority));
        let origin = Origin::http(move |asked| answer(&known, &signer, asked));
        state.lock().unwrap().url = format!("http://{}", origin.address);
        Self {
            origin,
            state,
            authority,
        }
    }

    /// Challenges are fetched there from now on.
    pub(crate) fn asks(&self, proxy: &str) {
        self.state.lock().unwrap().proxy = Some(proxy.to_owned());
    }

    /// Whether a challenge waits until it is known where to ask.
    pub(crate) fn waits(&self) -> bool {
        self.state.lock().unwrap().waits
    }

    /// Challenges wait until it is known where.
    pub(crate) fn asks_nobody(&self) {
        self.state.lock().unwrap().proxy = None;
    }

    pub(crate) fn refuses(&self, why: Option<&'static str>) {
        self.state.lock().unwrap().refuses = why;
    }

    pub(crate) fn holds(&self, holds: bool) {
        self.state.lock().unwrap().holds = holds;
    }

    /// How often somebody has registered, and as whom, and how many orders there were.
    pub(crate) fn counts(&self) -> (usize, String, usize) {
        let state = self.state.lock().unwrap();
        let contacts = state.contacts.to_string();
        (state.accounts, contacts, state.orders.len())
    }

    /// What a listener has to say of it.
    pub(crate) fn config(&self, listener: &str, names: &[&str], state: &std::path::Path) -> String {
        let directory = format!("http://{}/directory", self.origin.address);
        let ca = self.authority.ca();
        format!(
            "[listener.{listener}.tls.acme]\ndirectory = {directory:?}\nnames = {names:?}\n\
             contacts = [\"mailto:ops@a.example\"]\nterms_agreed = true\nstate = {state:?}\n\
             ca = {ca:?}\n"
        )
    }
}

fn answer(state: &Mutex<State>, authority: &Authority, asked: &Asked) -> Reply {
    let (method, path) = asked.line.split_once(' ').unwrap();
    match method {
        "GET" => directory(state, path),
        "HEAD" => reply(state, "200 OK", "", ""),
        _ => {
            let (protected, payload) = signed(state, asked, path);
            let mut parts = path.split('/').skip(1);
            let what = parts.next().unwrap();
            let numbers: Vec<usize> = parts.map(|text| text.parse().unwrap()).collect();
            match (what, &numbers[..]) {
                ("account", []) => account(state, &protected, &payload),
                ("order", []) => order(state, &protected, &payload),
                ("finalize", &[number]) => finalize(state, authority, number, &payload),
                (what, numbers) => told(state, what, numbers),
            }
        }
    }
}

fn directory(state: &Mutex<State>, path: &str) -> Reply {
    assert_eq!(path, "/directory");
    let url = state.lock().unwrap().url.clone();
    let directory = json!({
        "newNonce": format!("{url}/nonce"), "newAccount": format!("{url}/account"),
        "newOrder": format!("{url}/order"), "revokeCert": format!("{url}/revoke"),
        "keyChange": format!("{url}/key"),
    });
    reply(state, "200 OK", "", &directory.to_string())
}

/// What was signed, with what it is signed for.
fn signed(state: &Mutex<State>, asked: &Asked, path: &str) -> (Value, Value) {
    let jws: Value = serde_json::from_slice(&asked.body).unwrap();
    let decoded = |name: &str| decode(jws[name].as_str().unwrap());
    let protected: Value = serde_json::from_slice(&decoded("protected")).unwrap();
    let mut state = state.lock().unwrap();
    assert_eq!(protected["url"], format!("{}{path}", state.url));
    let mut nonces = state.nonces.iter();
    let place = nonces.position(|nonce| protected["nonce"] == **nonce);
    state
        .nonces
        .swap_remove(place.expect("a nonce is used once"));
    // To ask for something again has none.
    let payload = serde_json::from_slice(&decoded("payload")).unwrap_or_default();
    (protected, payload)
}

fn decode(text: &str) -> Vec<u8> {
    BASE64_URL_SAFE_NO_PAD.decode(text).unwrap()
}

fn account(state: &Mutex<State>, protected: &Value, payload: &Value) -> Reply {
    let jwk = &protected["jwk"];
    // RFC 7638.
    let text = format!(
        "{{\"crv\":{},\"kty\":{},\"x\":{},\"y\":{}}}",
        jwk["crv"], jwk["kty"], jwk["x"], jwk["y"]
    );
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    assert_eq!(payload["termsOfServiceAgreed"], true);
    let more = {
        let mut state = state.lock().unwrap();
        state.thumbprint = BASE64_URL_SAFE_NO_PAD.encode(digest);
        state.accounts += 1;
        state.contacts = payload["contact"].clone();
        format!("Location: {}/account/1\r\n", state.url)
    };
    reply(state, "201 Created", &more, "{\"status\":\"valid\"}")
}

fn order(state: &Mutex<State>, protected: &Value, payload: &Value) -> Reply {
    let names = payload["identifiers"].as_array().unwrap().iter();
    let names: Vec<_> = names
        .map(|it| it["value"].as_str().unwrap().to_owned())
        .collect();
    let (more, text) = {
        let mut state = state.lock().unwrap();
        assert_eq!(protected["kid"], format!("{}/account/1", state.url));
        state.orders.push(Order {
            is_valid: vec![false; names.len()],
            names,
            error: None,
            certificate: None,
        });
        let number = state.orders.len() - 1;
        let more = format!("Location: {}/order/{number}\r\n", state.url);
        (more, state.order(number))
    };
    reply(state, "201 Created", &more, &text)
}

fn finalize(state: &Mutex<State>, authority: &Authority, number: usize, payload: &Value) -> Reply {
    let request = decode(payload["csr"].as_str().unwrap());
    let text = {
        let mut state = state.lock().unwrap();
        let years = state.years;
        let order = &mut state.orders[number];
        assert!(order.is_valid.iter().all(|&is_valid| is_valid));
        order.certificate = Some(authority.sign(&request, years));
        state.order(number)
    };
    reply(state, "200 OK", "", &text)
}

/// What there is of an order.
fn told(state: &Mutex<State>, what: &str, numbers: &[usize]) -> Reply {
    let text = {
        let state = state.lock().unwrap();
        match (what, numbers) {
            ("order", &[number]) => state.order(number),
            ("certificate", &[number]) => state.orders[number].certificate.clone().unwrap(),
            ("authorization", &[number, index]) => state.authorization(number, index),
            ("http-01" | "tls-alpn-01", &[number, index]) => {
                state.challenge(what, number, index).to_string()
            }
            other => panic!("asked for {other:?}"),
        }
    };
    // What comes of it is known later.
    match (what, numbers) {
        ("http-01", &[order, index]) => challenge(state, fetched, order, index),
        ("tls-alpn-01", &[order, index]) => challenge(state, asked_by_acme, order, index),
        _ => {}
    }
    reply(state, "200 OK", "", &text)
}

/// Sees by this whether the proxy that is asked for a name answers with what is expected.
fn challenge(
    state: &Mutex<State>,
    ask: fn(proxy: &str, name: &str, token: &str, expected: &str),
    order: usize,
    index: usize,
) {
    until("it is known where the proxy is", || {
        let mut state = state.lock().unwrap();
        state.waits = state.proxy.is_none();
        !state.waits
    });
    let (proxy, name, expected, refuses) = {
        let state = state.lock().unwrap();
        let expected = format!("{}.{}", token(order, index), state.thumbprint);
        let name = state.orders[order].names[index].clone();
        (state.proxy.clone().unwrap(), name, expected, state.refuses)
    };
    ask(&proxy, &name, &token(order, index), &expected);
    let order = &mut state.lock().unwrap().orders[order];
    match refuses {
        None => order.is_valid[index] = true,
        Some(why) => {
            let kind = "urn:ietf:params:acme:error:unauthorized";
            order.error = Some(json!({ "type": kind, "detail": why, "status": 403 }));
        }
    }
}

/// Fetches what the proxy answers, as it may be asked of anybody.
fn fetched(proxy: &str, name: &str, token: &str, expected: &str) {
    let path = format!("/.well-known/acme-challenge/{token}");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
    let mut stream = TcpStream::connect(proxy).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let is_good =
        text.starts_with("HTTP/1.1 200 ") && text.ends_with(&format!("\r\n\r\n{expected}"));
    assert!(is_good, "{text}");
}

fn token(order: usize, index: usize) -> String {
    format!("token-{order}-{index}")
}

impl State {
    fn order(&self, number: usize) -> String {
        let (order, url) = (&self.orders[number], &self.url);
        let status = match order {
            _ if order.error.is_some() => "invalid",
            _ if order.is_valid.contains(&false) => "pending",
            Order {
                certificate: None, ..
            } => "ready",
            _ if self.holds => "processing",
            _ => "valid",
        };
        let names = order.names.iter();
        let identifiers: Vec<_> = names
            .map(|it| json!({ "type": "dns", "value": it }))
            .collect();
        let authorizations: Vec<_> = (0..order.names.len())
            .map(|index| format!("{url}/authorization/{number}/{index}"))
            .collect();
        let mut said = json!({
            "status": status, "identifiers": identifiers, "authorizations": authorizations,
            "finalize": format!("{url}/finalize/{number}"),
        });
        if status == "valid" {
            said["certificate"] = format!("{url}/certificate/{number}").into();
        }
        said.to_string()
    }

    fn authorization(&self, number: usize, index: usize) -> String {
        let order = &self.orders[number];
        json!({
            "status": self.status(number, index),
            "identifier": { "type": "dns", "value": order.names[index] },
            "challenges": [
                { "type": "dns-01", "url": "http://no", "token": "x", "status": "pending" },
                self.challenge("http-01", number, index),
                self.challenge("tls-alpn-01", number, index),
            ],
        })
        .to_string()
    }

    fn challenge(&self, kind: &str, number: usize, index: usize) -> Value {
        let url = format!("{}/{kind}/{number}/{index}", self.url);
        let status = self.status(number, index);
        let mut said = json!({
            "type": kind, "url": url, "token": token(number, index), "status": status,
        });
        if let Some(error) = &self.orders[number].error {
            said["error"] = error.clone();
        }
        said
    }

    fn status(&self, number: usize, index: usize) -> &'static str {
        let order = &self.orders[number];
        match order.is_valid[index] {
            _ if order.error.is_some() => "invalid",
            true => "valid",
            false => "pending",
        }
    }
}

/// An answer with the next nonce.
fn reply(state: &Mutex<State>, status: &str, more: &str, body: &str) -> Reply {
    let mut state = state.lock().unwrap();
    state.made += 1;
    let nonce = format!("nonce-{}", state.made);
    let text = format!(
        "HTTP/1.1 {status}\r\nReplay-Nonce: {nonce}\r\n{more}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    state.nonces.push(nonce);
    Reply::Go(text.into_bytes())
}
