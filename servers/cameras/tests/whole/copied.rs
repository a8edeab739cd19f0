//! What a program has recorded is in a store, and it is played from there.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::recorded::json;
use super::store::{Fault, Store};
use super::support::{Program, simulator, until};

/// A program that records one camera on this disk, and copies that to a store, which has so long
/// for each answer.
fn copying(disk: &Path, (store, patience): (&str, &str), camera: &str) -> Program {
    let credentials = disk.join("s3.toml");
    std::fs::write(
        &credentials,
        "access_key = \"a\"\nsecret_key = \"very-secret\"\n",
    )
    .unwrap();
    Program::start(&format!(
        "[recording]\nsegment = \"200ms\"\nsync = \"10ms\"\n\
         [tier.archive]\nendpoint = \"http://{store}\"\nbucket = \"recordings\"\n\
         patience = \"{patience}\"\n\
         retry_max = \"20ms\"\ncredentials = {credentials:?}\n\
         [volume.disk]\npath = {disk:?}\nreserve = \"1MiB\"\ntier = \"archive\"\n\
         [watch]\nlisten = \"127.0.0.1:0\"\n\
         [camera.gate]\nurl = {camera:?}\ndelivery = \"5ms\"\nrecord = {{ volume = \"disk\" }}\n",
    ))
}

/// How the store is doing.
fn tier(program: &Program) -> Value {
    json(program, "/api/volumes")["tiers"][0].clone()
}

/// The part of a path that asks for the minute before and the one after.
fn around(program: &Program) -> String {
    let now = json(program, "/api/cameras")["now_ms"].as_u64().unwrap();
    format!("from={}&until={}", now - 60_000, now + 60_000)
}

/// How many fragments a clip of all this time has.
fn fragments(program: &Program, around: &str) -> usize {
    let path = format!("/api/cameras/gate/clip.mp4?{around}");
    let (head, clip) = program.http("GET", &path, "", "");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    clip.windows(4).filter(|four| four == b"moof").count()
}

#[test]
fn a_program_copies_to_a_store_and_plays_from_it() {
    let (disk, store, simulator) = (tempfile::tempdir().unwrap(), Store::start(), simulator());
    let address = store.address.to_string();
    let mut program = copying(disk.path(), (&address, "10s"), &simulator.url(0));
    until("some are copied", || {
        tier(&program)["copied"].as_u64() > Some(3)
    });
    // It says that a store fails, once and without secrets, and goes on when it works.
    store.set_fault(Fault::Fails);
    program.until_said("tier archive: the answer is 503 SlowDown; trying again");
    store.set_fault(Fault::None);
    program.until_said("tier archive: it works again");
    let said = program.said();
    assert!(
        !said.contains("very-secret") && !said.contains("Signature"),
        "{said}"
    );
    program.terminate();
    let copied = store
        .keys()
        .iter()
        .filter(|key| key.ends_with(".mp4"))
        .count();
    // Another disk: all that is left is in the store.
    std::fs::remove_dir_all(disk.path().join("gate")).unwrap();
    program.start_again();
    let now = json(&program, "/api/cameras")["now_ms"].as_u64().unwrap();
    let around = around(&program);
    let fragments = fragments(&program, &around);
    assert!(
        fragments >= copied,
        "{fragments} fragments of {copied} segments"
    );
    let listed = json(&program, &format!("/api/cameras/gate/recordings?{around}"));
    assert_eq!(listed["tier_unreachable"], Value::Bool(false));
    assert!(!listed["ranges"].as_array().unwrap().is_empty(), "{listed}");
    // What a store does not say is said to be missing.
    store.set_fault(Fault::Fails);
    let earlier = format!("from={}&until={}", now - 200_000_000, now - 190_000_000);
    let listed = json(&program, &format!("/api/cameras/gate/recordings?{earlier}"));
    assert_eq!(listed["tier_unreachable"], Value::Bool(true), "{listed}");
}

/// Moto, a store of others, which ends when this is dropped.
struct Moto {
    process: Child,
    address: String,
}

impl Moto {
    /// `None` if it is not installed.
    fn start() -> Option<Self> {
        let mut moto = Self::begun()?;
        until("moto has made a bucket", || {
            if moto.process.try_wait().unwrap().is_some() {
                // Somebody has taken the port before it could.
                moto = Self::begun().unwrap();
            }
            let made = moto.put("/recordings");
            made.is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
        });
        Some(moto)
    }

    fn begun() -> Option<Self> {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let mut command = Command::new("moto_server");
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        let started = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        match started {
            Ok(process) => Some(Self {
                process,
                address: format!("127.0.0.1:{port}"),
            }),
            Err(error) => {
                eprintln!("moto_server cannot be started, so nothing is copied to it: {error}");
                None
            }
        }
    }

    fn put(&self, path: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(&self.address)?;
        let host = &self.address;
        let rest = "connection: close\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(format!("PUT {path} HTTP/1.1\r\nhost: {host}\r\n{rest}").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_store_of_others_has_what_was_copied() {
    let Some(store) = Moto::start() else { return };
    let (disk, simulator) = (tempfile::tempdir().unwrap(), simulator());
    let mut program = copying(disk.path(), (&store.address, "10s"), &simulator.url(0));
    until("some are copied", || {
        tier(&program)["copied"].as_u64() > Some(3)
    });
    program.terminate();
    std::fs::remove_dir_all(disk.path().join("gate")).unwrap();
    program.start_again();
    assert!(fragments(&program, &around(&program)) > 3);
}
