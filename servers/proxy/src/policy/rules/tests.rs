//! Whatever rules change, what is passed on is one request with the same body.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::config::{ForwardedFor, HeaderEdits};
use crate::http::{self, Framing, OfRequest, Request, Response};
use crate::policy::EditName;

const LISTENER: &str = "[listener.web]\nbind = \"127.0.0.1:0\"\nmode = \"http\"\npool = \"app\"\n\
                        [pool.app]\nserver = [{ name = \"a\", address = \"127.0.0.1:1\" }]\n";

/// Names of every kind, of which some are refused.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z][a-zA-Z0-9_-]{0,10}",
        prop::sample::select(vec![
            "Content-Length",
            "content_length",
            "Transfer-Encoding",
            "transfer_encoding",
            "Connection",
            "Host",
            "Upgrade",
            "TE",
            "X-Forwarded-For",
            "X-Request-Id",
            "X-Mine",
        ])
        .prop_map(str::to_owned),
        ".{0,8}",
    ]
}

/// Values of every kind, of which some are refused.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -z|~]{0,20}",
        "\\{(client|host|listener|path|request_id|route|scheme)\\}",
        "[a-z]{0,3}\\r?\\n[a-z]{0,3}: x",
        ".{0,12}",
    ]
}

fn edits(pairs: Vec<(String, String)>, removed: Vec<String>) -> HeaderEdits {
    let mut edits = HeaderEdits::default();
    for (index, (name, value)) in pairs.into_iter().enumerate() {
        // What is refused would be an error of the configuration.
        let (Ok(name), Ok(value)) = (EditName::try_from(name), Template::try_from(value)) else {
            continue;
        };
        match index % 2 {
            0 => edits.set_headers.insert(name, value),
            _ => edits.add_headers.insert(name, value),
        };
    }
    edits.remove_headers = removed
        .into_iter()
        .filter_map(|name| name.try_into().ok())
        .collect();
    edits
}

fn rules(request: HeaderEdits, response: HeaderEdits) -> Option<Arc<Rules>> {
    let config = crate::config::parse("test", LISTENER).unwrap();
    let mut listener = config.listeners["web"].get_ref().clone();
    let HeaderEdits {
        set_headers,
        add_headers,
        remove_headers,
    } = request;
    let request = RequestEdits {
        set_headers,
        add_headers,
        remove_headers,
        host: Some(toml::Spanned::new(0..0, "inner.example".to_owned())),
        ..RequestEdits::default()
    };
    listener.request = Some(toml::Spanned::new(0..0, request));
    listener.response = Some(toml::Spanned::new(0..0, response));
    listener.request_ids = RequestIds::Keep;
    let of_listener = OfListener {
        name: "web",
        config: &listener,
        limit: None,
        compress: None,
    };
    Rules::new(of_listener, (&"web".into(), None), None)
}

fn count(head: &[u8], name: &str) -> usize {
    let text = String::from_utf8_lossy(head).to_ascii_lowercase();
    let is_it = |line: &&str| line.replace('_', "-").starts_with(&format!("{name}:"));
    text.split("\r\n").filter(is_it).count()
}

proptest! {
    #[test]
    fn what_is_passed_on_has_the_same_framing(
        pairs in prop::collection::vec((name(), value()), 0..8),
        removed in prop::collection::vec(name(), 0..4),
        is_chunked in any::<bool>(),
    ) {
        let rules = rules(edits(pairs.clone(), removed.clone()), edits(pairs, removed)).unwrap();
        let framing = if is_chunked {
            "Transfer-Encoding: chunked"
        } else {
            "Content-Length: 7"
        };
        let text = format!(
            "POST /a?b HTTP/1.1\r\nHost: a.example\r\nX-Mine: 1\r\nX-Request-Id: \"\r\n\
             {framing}\r\n\r\n"
        );
        let mut storage = http::storage();
        let request = Request::parse(text.as_bytes(), &mut storage).unwrap();
        let asked = Asked {
            client: Some("192.0.2.7".parse().unwrap()),
            is_tls: false,
            host: request.host,
            target: request.target,
        };
        let Verdict::Forward(passage) = rules.admit(&asked, |_| None) else {
            panic!("it is not answered");
        };
        let mut out = Vec::new();
        OfRequest {
            client: asked.client,
            is_tls: false,
            forwarded_for: ForwardedFor::Replace,
            passage: Some(&passage),
        }
        .write(&request, &mut out);
        let mut storage = http::storage();
        let again = Request::parse(&out, &mut storage).unwrap();
        let expected = if is_chunked { Framing::Chunked } else { Framing::Length(7) };
        prop_assert_eq!(again.framing, expected);
        prop_assert_eq!((again.target, again.host), ("/a?b", "inner.example"));
        for name in ["content-length", "transfer-encoding"] {
            prop_assert_eq!(count(&out, name), usize::from(is_chunked == (name.len() > 14)));
        }
        let ids = String::from_utf8_lossy(&out).matches("\r\nx-request-id: ").count();
        prop_assert_eq!(ids, 1);
        prop_assert_eq!(count(&out, "x-forwarded-for"), 1);
        answers(&passage)?;
    }
}

/// The same of an answer.
fn answers(passage: &Passage) -> Result<(), TestCaseError> {
    let text = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nServer: x\r\nX-Mine: 1\r\n\r\n";
    let mut storage = http::storage();
    let response = Response::parse(text.as_bytes(), false, &mut storage).unwrap();
    let mut out = Vec::new();
    http::OfResponse {
        framing: response.framing,
        upgrades: false,
        passage: Some(passage),
        form: &crate::compress::Form::Fixed,
    }
    .write(&response, &mut out);
    http::OfResponse::end(false, false, &mut out);
    let mut storage = http::storage();
    let again = Response::parse(&out, false, &mut storage).unwrap();
    prop_assert_eq!(again.framing, Framing::Length(7));
    prop_assert_eq!(count(&out, "content-length"), 1);
    prop_assert_eq!(count(&out, "transfer-encoding"), 0);
    Ok(())
}
