//! Tokens and TLS on the command line: what `serve` asks of its clients, by what the client
//! commands connect, and `txlog token`.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use evenkeel::spawn_blocking;
use txlog::access::{
    Rights, Security, ServerTls, TlsFiles, Token, Tokens, new_secret, read_private,
};
use txlog_client::frame::TOKEN_BYTES_MAX;
use txlog_client::{Client, Connect, Session, SessionOptions, Tls};

use super::Outcome;

/// The variable with a client's token.
const TOKEN_VARIABLE: &str = "TXLOG_TOKEN";

#[derive(Debug, Args)]
pub(crate) struct SecurityArguments {
    /// Ask clients for a token of this file, which allows what its line says.
    ///
    /// `txlog token new` makes one. Pings need none. The file is read again at SIGHUP; if it is
    /// wrong then, the earlier tokens hold on. Connections whose token is gone or was changed are
    /// closed.
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// Speak TLS with this certificate, as PEM, with those that lead to its authority.
    ///
    /// It and its key are read again at SIGHUP, for connections to come; if they are wrong then,
    /// the earlier ones hold on.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of that certificate, as PEM; others must not be able to read the file.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Let in only clients with a certificate of the authorities in this file, as PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// Listen on addresses that others can reach although everybody may do everything.
    #[arg(long)]
    insecure_no_tokens: bool,
    /// Listen on addresses that others can reach although records and tokens can be overheard.
    #[arg(long)]
    insecure_no_tls: bool,
}

impl SecurityArguments {
    /// Reads the files.
    pub(crate) async fn read(&self) -> Result<Security, Box<dyn Error + Send + Sync>> {
        let tokens = match self.tokens.clone() {
            Some(path) => {
                let tokens = spawn_blocking(move || Tokens::read(&path)).await??;
                Some(Arc::new(tokens))
            }
            None => None,
        };
        let files = self.tls_cert.clone().zip(self.tls_key.clone());
        let tls = match files {
            Some((certificate, key)) => {
                let client_ca = self.tls_client_ca.clone();
                let files = TlsFiles {
                    certificate,
                    key,
                    client_ca,
                };
                let tls = spawn_blocking(move || ServerTls::read(files)).await??;
                Some(Arc::new(tls))
            }
            None => None,
        };
        Ok(Security {
            tls,
            tokens,
            insecure_no_tokens: self.insecure_no_tokens,
            insecure_no_tls: self.insecure_no_tls,
        })
    }
}

#[derive(Debug, Args)]
pub(crate) struct ServerArgument {
    /// Where the server listens.
    #[arg(long, default_value = "127.0.0.1:7010", value_name = "ADDRESS")]
    pub(crate) server: String,
    /// The log's name, of a server with several; without it, the one that has no name.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) log: String,
    /// Create the log if there is none of that name; the server has to allow it by --create-logs.
    #[arg(long, requires = "log")]
    pub(crate) create: bool,
    /// The file with the token to log in with; or put the token into the variable TXLOG_TOKEN.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Speak TLS, and trust servers with a certificate of the authorities in this file, as PEM.
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// The client's own certificate, as PEM, if the server asks for one.
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "tls_ca"])]
    tls_cert: Option<PathBuf>,
    /// The private key of that certificate, as PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The name that the server's certificate has to have, if it is not the host's.
    #[arg(long, value_name = "NAME", requires = "tls_ca")]
    tls_server_name: Option<String>,
    /// Send a token to another machine although it can be overheard.
    #[arg(long)]
    insecure_no_tls: bool,
}

impl ServerArgument {
    /// Connects to this server's log.
    pub(crate) async fn connect(&self) -> Result<Client, Box<dyn Error + Send + Sync>> {
        let how = self.how().await?;
        Ok(how.connect(self.server.as_str()).await?)
    }

    /// A session with this server's log.
    pub(crate) async fn session(
        &self,
        options: SessionOptions,
    ) -> Result<Session, Box<dyn Error + Send + Sync>> {
        let how = self.how().await?;
        Ok(Session::open(how, [self.server.as_str()], options)?)
    }

    /// How to connect there; files are read now.
    pub(crate) async fn how(&self) -> Result<Connect, Box<dyn Error + Send + Sync>> {
        let mut connect = Connect::new()
            .log(self.log.as_str())
            .create(self.create)
            .insecure_no_tls(self.insecure_no_tls);
        if let Some(ca) = self.tls_ca.clone() {
            let files = txlog_client::TlsFiles {
                ca,
                certificate: self.tls_cert.clone().zip(self.tls_key.clone()),
                server_name: self.tls_server_name.clone(),
            };
            connect = connect.tls(spawn_blocking(move || Tls::read(&files)).await??);
        }
        if let Some(token) = self.token().await? {
            connect = connect.token(token);
        }
        Ok(connect)
    }

    async fn token(&self) -> Result<Option<String>, Box<dyn Error + Send + Sync>> {
        if let Some(path) = self.token_file.clone() {
            return secret(path).await.map(Some);
        }
        let token = std::env::var_os(TOKEN_VARIABLE).filter(|token| !token.is_empty());
        let text = token.map(|token| token.into_string()).transpose();
        text.map_err(|_| format!("{TOKEN_VARIABLE} is no text").into())
    }
}

/// A token alone in a file.
pub(super) async fn secret(path: PathBuf) -> Result<String, Box<dyn Error + Send + Sync>> {
    let shown = path.display().to_string();
    // A line's end behind it.
    let bytes_max = TOKEN_BYTES_MAX as u64 + 2;
    let read = spawn_blocking(move || read_private(&path, bytes_max)).await?;
    let text = read.map_err(|error| format!("the token in {shown}: {error}"))?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(format!("the token in {shown}: the file is empty").into()),
        token => Ok(token.to_owned()),
    }
}

/// Make tokens for the file of `serve --tokens`.
#[derive(Debug, Args)]
pub(crate) struct TokenArguments {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    New(NewArguments),
}

/// Make a token: print its secret, and add a line without the secret to a file of tokens.
///
/// The secret goes to the client, by --token-file or the variable TXLOG_TOKEN, and cannot be found
/// out again: the file has only its SHA-256. Without --add-to, the line is printed on standard
/// error. A server that runs reads the file at SIGHUP.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  txlog token new operator --allow append,read,admin --add-to /etc/txlog/tokens
  (umask 077; txlog token new collector --allow append --log orders --add-to tokens > secret)")]
struct NewArguments {
    /// The token's name, for people.
    name: String,
    /// What it allows: append, read and admin, with commas between.
    ///
    /// `read` also allows to keep positions in a log by name, `admin` to create,
    /// list and trim logs.
    #[arg(long, value_name = "PERMISSIONS")]
    allow: Rights,
    /// For this log only; may be given several times. A dot is the log without a name.
    #[arg(long, value_name = "NAME")]
    log: Vec<String>,
    /// Add the line to this file, which is made if there is none, for its owner alone.
    ///
    /// The file is replaced as a whole, by one with the same owner and mode. If it is wrong, or has
    /// a token of this name, it stays as it is.
    #[arg(long, value_name = "FILE")]
    add_to: Option<PathBuf>,
}

pub(crate) fn token(arguments: TokenArguments) -> Outcome {
    let TokenCommand::New(NewArguments {
        name,
        allow,
        log,
        add_to,
    }) = arguments.command;
    let secret = new_secret()?;
    let token = Token::new(&name, allow, secret.as_bytes(), &log)?;
    match add_to {
        Some(path) => {
            let added = Tokens::add(&path, &token);
            added.map_err(|error| format!("{name} was not added: {error}"))?;
        }
        None => eprintln!("add this line to the file of `serve --tokens`:\n{token}"),
    }
    println!("{secret}");
    Ok(ExitCode::SUCCESS)
}
