//! A server that keeps lines of text in files, one for each name.
//!
//! It shows three things:
//!
//! 1. `put` answers when the text is on the device, complete and under its name; after a crash
//!    before that, the old text is there ([`fs::replace`](evenkeel::fs::replace)).
//! 2. A file that hangs holds up only the client that asked for it: try `get` of a FIFO.
//! 3. If a lane's queue is full, a request is refused with an error that says so.
//!
//! ```sh
//! cargo run --example files -- 127.0.0.1:7007 /tmp/texts
//! printf 'put greeting hello there\nget greeting\nlist\n' | nc -N 127.0.0.1 7007
//! ```

mod cli;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use evenkeel::fs::{self, File};
use evenkeel::net::{TcpListener, TcpStream};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

/// The longest line that is read, and the longest text that is returned.
const LINE_MAX: u64 = 64 * 1024;

/// How many names are listed.
const NAMES_MAX: usize = 1_000;

const HELP: &str = "\
Keeps texts in files: `put NAME TEXT`, `get NAME` and `list`, a line each, over TCP.

Usage: files [ADDRESS [DIRECTORY]]

  ADDRESS    where to listen; 127.0.0.1:7007 by default, port 0 for a free one
  DIRECTORY  where the files are, created if necessary; `texts` by default
";

#[evenkeel::main]
async fn main() -> ExitCode {
    match cli::arguments(HELP, ["127.0.0.1:7007", "texts"]) {
        Ok([address, directory]) => cli::end(run(&address, &directory).await),
        Err(end) => end,
    }
}

async fn run(address: &str, directory: &str) -> Result<(), String> {
    let cannot = |error| format!("cannot listen on {address}: {error}");
    let listener = TcpListener::bind(address).await.map_err(cannot)?;
    let made = fs::create_dir_all(directory).await;
    made.map_err(|error| format!("cannot create {directory}: {error}"))?;
    println!("listening on {}", listener.local_addr().map_err(cannot)?);
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let directory = PathBuf::from(directory);
                evenkeel::spawn(async move {
                    if let Err(error) = serve(stream, &directory).await {
                        eprintln!("{peer}: {error}");
                    }
                });
            }
            Err(error) => eprintln!("cannot accept: {error}"),
        }
    }
}

/// Answers line after line.
async fn serve(mut stream: TcpStream, directory: &Path) -> io::Result<()> {
    let (reader, mut writer) = stream.split();
    let mut reader = BufReader::new(reader);
    loop {
        let mut line = String::new();
        (&mut reader).take(LINE_MAX).read_line(&mut line).await?;
        let Some(line) = line.strip_suffix('\n') else {
            return Ok(());
        };
        let answer = match answer(line, directory).await {
            Ok(answer) => answer,
            Err(error) => format!("error: {error}"),
        };
        writer.write_all(format!("{answer}\n").as_bytes()).await?;
    }
}

async fn answer(line: &str, directory: &Path) -> io::Result<String> {
    let mut words = line.trim_end_matches('\r').splitn(3, ' ');
    match (words.next(), words.next(), words.next()) {
        (Some("put"), Some(name), Some(text)) => {
            fs::replace(path(directory, name)?, text.to_owned()).await?;
            Ok("kept".to_owned())
        }
        (Some("get"), Some(name), None) => {
            let file = File::open(path(directory, name)?).await?;
            let mut text = String::new();
            file.take(LINE_MAX).read_to_string(&mut text).await?;
            Ok(text)
        }
        (Some("list"), None, None) => list(directory).await,
        _ => Err(io::Error::other(
            "use `put NAME TEXT`, `get NAME` or `list`",
        )),
    }
}

/// All names, in order, separated by spaces.
async fn list(directory: &Path) -> io::Result<String> {
    let mut names = Vec::new();
    let mut entries = fs::read_dir(directory).await?;
    while let Some(entry) = entries.next_entry().await? {
        names.extend(entry.file_name().into_string());
        if names.len() == NAMES_MAX {
            break;
        }
    }
    names.sort();
    Ok(names.join(" "))
}

/// The path of a text. A client cannot reach files outside the directory.
fn path(directory: &Path, name: &str) -> io::Result<PathBuf> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    if (1..=64).contains(&name.len()) && name.chars().all(plain) {
        return Ok(directory.join(name));
    }
    Err(io::Error::other(
        "a name has 1 to 64 letters, digits and hyphens",
    ))
}
