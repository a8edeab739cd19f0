//! A protected server within the test, and tokens in a file of the test's own.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use tempfile::NamedTempFile;
use tokio::sync::oneshot;
use txlog::access::{Security, Token, Tokens};
use txlog::log::Log;
use txlog::server::{Reload, Server, ServerConfig};
use txlog_client::frame::{Access, Request, Response, VERSION};

use super::memory::MemoryDisk;
use super::served::Raw;
use super::{run, small};

/// Tokens by their names, and what they allow; the secret is the name with `secret-` before it.
pub(crate) struct TokenFile {
    file: NamedTempFile,
}

impl TokenFile {
    pub(crate) fn new(tokens: &[(&str, &str, &[&str])]) -> Self {
        let file = NamedTempFile::new().unwrap();
        let tokens_file = Self { file };
        tokens_file.set(tokens);
        tokens_file
    }

    pub(crate) fn set(&self, tokens: &[(&str, &str, &[&str])]) {
        let line = |&(name, rights, logs): &(&str, &str, &[&str])| {
            let logs: Vec<_> = logs.iter().map(|&log| log.to_owned()).collect();
            let token = Token::new(name, rights.parse().unwrap(), &secret(name), &logs);
            format!("{}\n", token.unwrap())
        };
        self.write(&tokens.iter().map(line).collect::<String>());
    }

    pub(crate) fn write(&self, text: &str) {
        std::fs::write(self.file.path(), text).unwrap();
    }

    pub(crate) fn path(&self) -> &str {
        self.file.path().to_str().unwrap()
    }

    pub(crate) fn security(&self) -> Security {
        Security {
            tokens: Some(Arc::new(Tokens::read(self.file.path()).unwrap())),
            ..Security::default()
        }
    }
}

pub(crate) fn secret(name: &str) -> Bytes {
    format!("secret-{name}").into()
}

/// Serves a log in memory, protected like this, while `test` runs.
pub(crate) fn serving_secured(
    config: ServerConfig,
    security: Security,
    test: impl AsyncFnOnce(SocketAddr, Reload),
) {
    run(async {
        let (log, _) = Log::open(MemoryDisk::new(1), small()).await.unwrap();
        let server = Server::bind_secured("127.0.0.1:0", (Some(log), None), config, security);
        let server = server.await.unwrap();
        let (address, reload) = (server.local_addr().unwrap(), server.reload());
        let (end, ends) = oneshot::channel::<()>();
        let server = evenkeel::spawn(server.run(async {
            let _ = ends.await;
        }));
        test(address, reload).await;
        drop(end);
        server.await.unwrap().unwrap();
    });
}

pub(crate) fn hello_with(log: &str, token: Bytes) -> Request {
    let (min, max) = (VERSION, VERSION);
    let access = Some(Access {
        log: log.to_owned(),
        create: false,
        token,
    });
    Request::Hello { min, max, access }
}

impl Raw {
    /// A connection whose hello has a token, and the server's welcome.
    pub(crate) async fn logged_in(address: SocketAddr, token: Bytes) -> (Self, Response) {
        let mut raw = Self::connect(address).await;
        raw.ask(&hello_with("", token)).await;
        let welcome = raw.answer().await.unwrap();
        assert!(matches!(welcome, Response::Welcome { .. }), "{welcome:?}");
        (raw, welcome)
    }
}
