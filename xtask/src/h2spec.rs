//! `cargo xtask h2spec`: the proxy's HTTP/2 by the cases of h2spec, which others have written.
//!
//! The tool is built in the version that `xtask/h2spec/go.mod` names. The proxy listens without TLS
//! and for HTTP/2 alone: one case begins with something else, which elsewhere may be HTTP/1.1. What
//! is behind it is a server of this file, as what is tested is what is between them.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::cargo::{self, Cargo};

/// How long h2spec waits for what is to come.
const SECONDS: &str = "2";

/// What has to come through the proxy: enough that windows matter.
const BODY: &[u8] = b"Windows matter from a few bytes on.\n";

/// Runs all cases, or those of these sections, such as `http2/6.9`.
pub(crate) fn run(sections: &[String]) -> Result<()> {
    let tool = tool()?;
    Cargo::new("build --quiet --package proxy").run()?;
    let folder = cargo::target_dir().join("h2spec");
    let proxy = Proxy::start(&folder, origin()?)?;
    let mut command = Command::new(&tool);
    command
        .args(["--host", &proxy.address.ip().to_string()])
        .args(["--port", &proxy.address.port().to_string()])
        .args(["--timeout", SECONDS])
        .args(sections);
    let status = command.status();
    let status = status.with_context(|| format!("cannot start {}", tool.display()))?;
    ensure!(status.success(), "h2spec has found something ({status})");
    Ok(())
}

/// The program, built if it is not there.
fn tool() -> Result<PathBuf> {
    let source = cargo::root().join("xtask/h2spec");
    let tool = cargo::target_dir().join("tools/h2spec/h2spec");
    let mut go = Command::new("go");
    go.current_dir(source)
        .args(["build", "-mod=readonly", "-o"])
        .arg(&tool)
        .arg("github.com/summerwind/h2spec/cmd/h2spec");
    let status = go.status();
    let status =
        status.context("cannot start `go`, which builds h2spec: install Go 1.26 or newer")?;
    ensure!(status.success(), "{go:?} failed ({status})");
    Ok(tool)
}

/// A proxy at work, which ends with this.
struct Proxy {
    child: Child,
    /// Open, or what it says would be an error.
    _output: Lines<BufReader<ChildStdout>>,
    address: SocketAddr,
}

impl Proxy {
    fn start(folder: &Path, origin: SocketAddr) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let file = folder.join("proxy.toml");
        let config = format!(
            "[listener.web]\nbind = \"127.0.0.1:0\"\nmode = \"http\"\npool = \"app\"\n\
             h2 = {{ only = true }}\n[[pool.app.server]]\nname = \"one\"\naddress = \"{origin}\"\n"
        );
        std::fs::write(&file, config)?;
        let program = cargo::target_dir().join("debug/evenkeel-proxy");
        let mut child = Command::new(&program)
            .arg("run")
            .arg(&file)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let output = child.stdout.take().context("the proxy has no output")?;
        let mut lines = BufReader::new(output).lines();
        let first = lines
            .next()
            .context("the proxy does not begin: see `check` of its file")??;
        let Some(address) = first.strip_prefix("listening on web ") else {
            let _ = child.kill();
            bail!("the proxy does not say where it listens: {first}");
        };
        let address = address.parse()?;
        Ok(Self {
            child,
            _output: lines,
            address,
        })
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server that answers whatever it is asked, for as long as the command lasts.
fn origin() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().map_while(std::result::Result::ok) {
            // The proxy may go away at any time.
            thread::spawn(move || drop(serve(stream)));
        }
    });
    Ok(address)
}

fn serve(stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    while let Some(length) = request(&mut reader)? {
        std::io::copy(&mut (&mut reader).take(length), &mut std::io::sink())?;
        let length = BODY.len();
        write!(
            writer,
            "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n"
        )?;
        writer.write_all(BODY)?;
    }
    Ok(())
}

/// Reads a head, and a body in chunks; returns the length of another body, and nothing at the end.
fn request(reader: &mut impl BufRead) -> Result<Option<u64>> {
    let (mut length, mut is_chunked) = (0, false);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim_end();
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse()?;
        }
        is_chunked |= line == "transfer-encoding: chunked";
        if line.is_empty() {
            break;
        }
    }
    if !is_chunked {
        return Ok(Some(length));
    }
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let size = u64::from_str_radix(line.trim_end(), 16)?;
        if size == 0 {
            // Trailers, up to an empty line.
            while reader.read_line(&mut line)? > 2 {
                line.clear();
            }
            return Ok(Some(0));
        }
        std::io::copy(&mut reader.take(size + 2), &mut std::io::sink())?;
    }
}
