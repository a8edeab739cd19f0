//! The service in the guide's chapter on services of Tokio: it can be built, and does what the
//! chapter says.

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use support::{project, succeeds, target};

const CHAPTER: &str = include_str!("../../../crates/evenkeel/src/guide/tokio_service.md");
/// Where the chapter's service listens.
const ADDRESS: &str = "127.0.0.1:7000";
const HUNG: Duration = Duration::from_secs(60);

/// Ends with the test, also if that fails.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ask(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(HUNG)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_service_of_the_chapter_answers_a_check_beside_exports() {
    let (_, rest) = CHAPTER.split_once("```rust,ignore\n").unwrap();
    let (code, _) = rest.split_once("```").unwrap();
    assert!(code.contains(ADDRESS));
    // A port that was free a moment ago.
    let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = address.unwrap();
    let project = project();
    project.write("src/main.rs", &code.replace(ADDRESS, &address.to_string()));
    succeeds(&project.evenkeel(&["build"]));
    let program = target().join("debug/project");
    let mut command = Command::new(program);
    let command = command.env("TOKIO_WORKER_THREADS", "2");
    let _service = Service(command.env_remove("EVENKEEL").spawn().unwrap());
    let began = Instant::now();
    while TcpStream::connect(address).is_err() {
        assert!(began.elapsed() < HUNG, "it does not listen");
        thread::sleep(Duration::from_millis(10));
    }
    let (done, order) = mpsc::channel();
    let exports = [(); 4].map(|()| {
        let done = done.clone();
        thread::spawn(move || {
            let answer = ask(address, "/export");
            done.send("export").unwrap();
            answer
        })
    });
    thread::sleep(Duration::from_millis(500));
    let check = ask(address, "/health");
    done.send("check").unwrap();
    assert!(check.starts_with("HTTP/1.1 200 OK"), "{check}");
    // On Tokio, two exports would have to end before.
    assert_eq!(order.recv().unwrap(), "check");
    for export in exports {
        assert!(export.join().unwrap().ends_with("ok\n"));
    }
}
