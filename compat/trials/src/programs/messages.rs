//! Programs that speak other protocols than HTTP/1, each with a client.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;

use super::Failure;
use super::process::{LIMIT, Process};
use super::stage::{Stage, expect, free};

/// mini-redis: its server, and its client, which keeps a few values, and lets one expire.
pub(super) fn redis(stage: &mut Stage) -> Result<(), Failure> {
    let address = free()?;
    let port = address.port().to_string();
    let mut server = stage.start("mini-redis-server", &["--port", &port])?;
    server.listens(address)?;
    for number in 0..10 {
        let (key, value) = (format!("key {number}"), format!("value {number}"));
        let words = ["--port", &port, "set", &key, &value];
        expect("set", &stage.run("mini-redis-cli", &words)?.trim(), &"OK")?;
        let got = stage.run("mini-redis-cli", &["--port", &port, "get", &key])?;
        expect("get", &got.trim(), &format!("{value:?}").as_str())?;
    }
    let words = ["--port", &port, "set", "brief", "value", "1"];
    stage.run("mini-redis-cli", &words)?;
    std::thread::sleep(std::time::Duration::from_millis(100));
    let got = stage.run("mini-redis-cli", &["--port", &port, "get", "brief"])?;
    expect("a value that has expired", &got.trim(), &"(nil)")?;
    publish(address)?;
    stage.interrupt(server)
}

/// A message to several subscribers.
fn publish(address: SocketAddr) -> Result<(), Failure> {
    let mut subscribers = Vec::new();
    for _ in 0..10 {
        let mut connection = Redis::connect(address)?;
        connection.send(&["SUBSCRIBE", "news"])?;
        // A push has three parts: its kind, the channel, and how many there are.
        let said = connection.lines(6)?;
        expect("subscribed", &said.last().map(String::as_str), &Some(":1"))?;
        subscribers.push(connection);
    }
    let mut publisher = Redis::connect(address)?;
    publisher.send(&["PUBLISH", "news", "hello"])?;
    expect(
        "subscribers",
        &publisher.lines(1)?.concat().as_str(),
        &":10",
    )?;
    for mut subscriber in subscribers {
        let said = subscriber.lines(7)?;
        expect(
            "the message",
            &said.last().map(String::as_str),
            &Some("hello"),
        )?;
    }
    Ok(())
}

/// A connection that speaks the protocol of Redis.
struct Redis(BufReader<TcpStream>);

impl Redis {
    fn connect(address: SocketAddr) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(LIMIT))?;
        Ok(Self(BufReader::new(stream)))
    }

    fn send(&mut self, words: &[&str]) -> Result<(), Failure> {
        let word = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
        let words: Vec<String> = words.iter().map(word).collect();
        let text = format!("*{}\r\n{}", words.len(), words.concat());
        Ok(self.0.get_mut().write_all(text.as_bytes())?)
    }

    fn lines(&mut self, count: usize) -> Result<Vec<String>, Failure> {
        let lines = self.0.by_ref().lines().take(count);
        lines
            .collect::<Result<_, _>>()
            .map_err(|error| Failure::Wrong(format!("redis: {error}; expected {count} lines")))
    }
}

/// rumqttd, and the same broker within a program, with a client of rumqttc's.
pub(super) fn mqtt(stage: &mut Stage) -> Result<(), Failure> {
    let server = publish_by(stage, "rumqttd", &["-q", "-c"])?;
    stage.terminate(server)?;
    let server = publish_by(stage, "broker", &[])?;
    stage.interrupt(server)
}

fn publish_by(stage: &mut Stage, broker: &str, words: &[&str]) -> Result<Process, Failure> {
    let (address, console) = (free()?, free()?);
    let config = stage.folder().join(format!("{broker}.toml"));
    let text = format!(
        "id = 0\n[router]\nid = 0\nmax_connections = 100\nmax_outgoing_packet_count = 200\n\
         max_segment_size = 1048576\nmax_segment_count = 10\n\
         [v4.1]\nname = \"v4-1\"\nlisten = \"{address}\"\nnext_connection_delay_ms = 1\n\
         [v4.1.connections]\nconnection_timeout_ms = 60000\nmax_payload_size = 20480\n\
         max_inflight_count = 100\ndynamic_filters = true\n[console]\nlisten = \"{console}\"\n"
    );
    fs::write(&config, text)?;
    let config = config.display().to_string();
    let mut server = stage.start(broker, &[words, &[&config]].concat())?;
    server.listens(address)?;
    let said = stage.run("mqtt", &[&address.port().to_string()])?;
    expect(broker, &said.trim(), &"150 messages")?;
    Ok(server)
}

/// A client of async-nats's, with the server that everybody has.
pub(super) fn nats(stage: &mut Stage) -> Result<(), Failure> {
    let program = installed("nats-server", &[])?;
    let address = free()?;
    let mut command = Command::new(program);
    command.args(["-a", "127.0.0.1", "-p", &address.port().to_string()]);
    command.arg("-js").arg("-sd").arg(stage.folder());
    let mut server = stage.start_command("nats-server", &mut command)?;
    server.listens(address)?;
    let said = stage.run("nats", &[&address.to_string()])?;
    expect(
        "nats",
        &said.trim(),
        &"100 received, 100 answered, 100 kept",
    )
}

/// tonic: unary calls and streams of every kind, a server and a client.
pub(super) fn grpc(stage: &mut Stage) -> Result<(), Failure> {
    let address = free()?;
    let mut server = stage.start("grpc", &["serve", &address.port().to_string()])?;
    server.listens(address)?;
    let said = stage.run("grpc", &["ask", &address.to_string()])?;
    let expected = "640 unary calls, 640 answers in streams, 4 changes, NotFound";
    expect("grpc", &said.trim(), &expected)?;
    stage.interrupt(server)
}

/// A server of the system's, in the usual folders or in these.
pub(super) fn installed(program: &str, folders: &[PathBuf]) -> Result<PathBuf, Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/bin".into()]);
    let mut places = usual
        .chain(folders.iter().cloned())
        .map(|it| it.join(program));
    let missing = || Failure::Missing(format!("`{program}` is not installed"));
    places.find(|place| place.is_file()).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_installed_is_named() {
        let found = installed("no-such-server", &[PathBuf::from("/nowhere")]);
        assert!(matches!(found, Err(Failure::Missing(why)) if why.contains("no-such-server")));
    }
}
