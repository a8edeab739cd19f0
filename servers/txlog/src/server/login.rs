//! What a connection may do, by the token of its hello.
//!
//! A connection without a token may ping, and learns nothing of the log: not where it ends, which
//! it is, or whether it can be written. Pings need no permission, since whoever supervises a server
//! or balances loads has to see whether it is alive, and should have no secret for that.
//!
//! When the file of tokens is read again, connections whose token is no longer in it as it was are
//! closed; they may connect again by what holds now.

use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::spawn_blocking;
use evenkeel::time::timeout;
use txlog_client::frame::{Access, Code, Request};

use super::connection::Fault;
use super::peers::Peer;
use super::{Context, Reload};
use crate::access::{Permission, Rights, Token, Tokens};
use crate::store::{Store, StoreError};

/// How long the settings of single logs may take to be read again. Their disk may hang, and tokens
/// have to be read again all the same when the next signal comes.
const SETTINGS_MAX: Duration = Duration::from_secs(5);

/// What is said then.
const NO_END: &str = "the file could not be read within 5 s: see whether its disk answers";

/// What a connection may do in its log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Login {
    pub(super) rights: Rights,
    has_token: bool,
}

/// Finds out what the connection may do, or that its token is nobody's.
pub(super) fn login<S: Store>(
    context: &Context<S>,
    peer: &Peer,
    access: &Access,
    from: SocketAddr,
) -> Result<Login, Fault> {
    let Some(tokens) = &context.security.tokens else {
        return Ok(Login {
            rights: Rights::ALL,
            has_token: false,
        });
    };
    let secret = &access.token[..];
    if secret.is_empty() {
        return Ok(Login {
            rights: Rights::NONE,
            has_token: false,
        });
    }
    let Some(token) = known(tokens, peer, secret) else {
        context.counters.failed_logins.add(1);
        let from = from.ip();
        context.logins.say(format!(
            "a login from {from} failed, by a token that is not known"
        ));
        let text = "the server does not know this token; see whether it was copied whole, or was \
                    replaced";
        return Err(Fault::new(Code::NotAllowed, text));
    };
    Ok(Login {
        rights: token.rights(&access.log),
        has_token: true,
    })
}

fn known(tokens: &Tokens, peer: &Peer, secret: &[u8]) -> Option<Arc<Token>> {
    let token = tokens.login(secret).ok()?;
    // First told, then looked again: if the file is read meanwhile, either this sees it, or who
    // read it sees the peer.
    peer.logged_in(Arc::clone(&token));
    tokens.has(&token).then_some(token)
}

impl Login {
    /// The id of the request and why it is refused, if it is.
    pub(super) fn refuses(self, request: &Request) -> Option<(u64, StoreError)> {
        self.lack(request)
            .zip(request.id())
            .map(|(error, id)| (id, error))
    }

    /// Frames that are too long for who may not append are an append.
    pub(super) fn explained(self, fault: Fault) -> Fault {
        match fault.code {
            Code::FrameTooLong if !self.rights.allow(Permission::Append) => {
                Fault::new(Code::NotAllowed, self.lacks(Permission::Append))
            }
            _ => fault,
        }
    }

    fn lack(self, request: &Request) -> Option<StoreError> {
        let needed = match request {
            Request::Append { .. } | Request::Batch { .. } => Permission::Append,
            Request::Read { .. }
            | Request::Seek { .. }
            | Request::Cursor { .. }
            | Request::Cursors { .. } => Permission::Read,
            Request::Logs { .. } | Request::Trim { .. } => Permission::Admin,
            // Whether the log is well is told to whoever may use it.
            Request::Health { .. } if self.rights.is_empty() => Permission::Read,
            Request::Health { .. } | Request::Ping { .. } | Request::Hello { .. } => return None,
        };
        let refused = || StoreError::new(Code::NotAllowed, self.lacks(needed));
        (!self.rights.allow(needed)).then(refused)
    }

    pub(super) fn lacks(self, needed: Permission) -> String {
        match self.has_token {
            true => format!(
                "the token does not allow `{needed}` in this log; the server's operator can give \
                 one that does"
            ),
            false => format!(
                "this needs a token that allows `{needed}`: give one by --token-file or \
                 TXLOG_TOKEN; without a token the server only answers pings"
            ),
        }
    }
}

/// Reads the files again whenever that is asked for, and closes the connections whose tokens are
/// gone. Does not return.
pub(super) async fn reload<S: Store>(context: &Arc<Context<S>>, reload: &Reload) {
    let mut asks = reload.asked.subscribe();
    let mut done = 0;
    loop {
        // The sender is in `reload`, so this cannot fail.
        let asked = asks.wait_for(|asked| *asked > done).await;
        done = asked.map_or(u64::MAX, |asked| *asked);
        if let Some(tokens) = context.security.tokens.clone() {
            read_tokens(context, tokens).await;
        }
        if let Some(tls) = context.security.tls.clone() {
            let read = spawn_blocking(move || tls.read_again()).await;
            match read.map_err(|error| error.to_string()) {
                Ok(Ok(())) => eprintln!("txlog: read the certificate for connections to come"),
                Ok(Err(error)) => not_read("certificate", &error),
                Err(error) => not_read("certificate", &error),
            }
        }
        let read = timeout(SETTINGS_MAX, context.logs.read_again()).await;
        match read.unwrap_or_else(|_| Err(NO_END.to_owned())) {
            Ok(Some(changes)) => {
                eprintln!("txlog: read the settings of single logs");
                for change in changes {
                    eprintln!("txlog: {change}");
                }
            }
            Ok(None) => {}
            Err(error) => not_read("settings of single logs", &error),
        }
        reload.done.send_replace(done);
    }
}

async fn read_tokens<S: Store>(context: &Context<S>, tokens: Arc<Tokens>) {
    let reading = Arc::clone(&tokens);
    let read = spawn_blocking(move || reading.read_again()).await;
    match read.map_err(|error| error.to_string()) {
        Ok(Ok(count)) => {
            let closed = context.peers.expel(|token| !tokens.has(token));
            eprintln!("txlog: read {count} tokens; {closed} connections lost theirs");
        }
        Ok(Err(error)) => not_read("tokens", &error),
        Err(error) => not_read("tokens", &error),
    }
}

/// Loudly, as whoever changed the file believes that it holds.
fn not_read(what: &str, why: &dyn Display) {
    eprintln!("txlog: NOTHING HAS CHANGED, the earlier {what} hold on: {why}");
}
