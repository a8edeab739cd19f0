//! A call that hangs holds up its lane and nothing else.

#[path = "support/hang.rs"]
mod hang;
#[path = "support/scratch.rs"]
mod scratch;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use evenkeel::blocking::LaneError;
use evenkeel::fs::{self, File};
use evenkeel::net::UdpSocket;
use evenkeel::runtime::{Builder, Handle};
use evenkeel::stats::LaneStats;
use hang::{until, watched};
use scratch::Scratch;
use tokio::io::AsyncReadExt;

/// A FIFO. Opening it hangs until there is a peer.
struct Fifo(PathBuf);

impl Fifo {
    fn new(path: PathBuf) -> Self {
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        Self(path)
    }

    /// Releases all threads that wait to open it.
    fn release(&self) -> std::fs::File {
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true).open(&self.0).unwrap()
    }
}

fn lane(what: &str) -> Option<LaneStats> {
    let stats = Handle::current().stats();
    let mut lanes = stats.lanes.iter();
    lanes.find(|lane| lane.name.ends_with(what)).cloned()
}

/// Ordinary file work, one of each sort.
async fn ordinary(path: &Path) -> std::io::Result<()> {
    let file = File::create_new(path).await?;
    file.write_all_at("text", 0).await?;
    file.sync_data().await?;
    assert_eq!(file.read_at(vec![0; 10], 0).await?, b"text");
    assert_eq!(fs::metadata(path).await?.len(), 4);
    assert_eq!(fs::read_to_string(path).await?, "text");
    fs::replace(path, "new").await?;
    fs::remove_file(path).await
}

async fn ping() {
    let ours = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let peer = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = peer.local_addr().unwrap();
    for _ in 0..20 {
        ours.send_to(b"ping", address).await.unwrap();
        let mut buffer = [0; 10];
        assert_eq!(peer.recv_from(&mut buffer).await.unwrap().0, 4);
    }
}

#[test]
fn more_hung_opens_than_threads_hold_up_nothing_beside_them() {
    watched("hung opens", || {
        let scratch = Scratch::new("hung-opens");
        let fifo = Fifo::new(scratch.path("fifo"));
        let runtime = Builder::new().workers(2).build().unwrap();
        let path = fifo.0.clone();
        let opens = runtime.block_on(async {
            let opens: Vec<_> = (0..100)
                .map(|_| evenkeel::spawn(File::open(path.clone())))
                .collect();
            let hung = || lane("special").is_some_and(|lane| lane.busy == 16 && lane.queued == 84);
            while !hung() {
                evenkeel::time::sleep(Duration::from_millis(1)).await;
            }
            for round in 0..20 {
                ordinary(&scratch.path(format!("file-{round}")))
                    .await
                    .unwrap();
                ping().await;
            }
            assert!(hung(), "{:?}", lane("special"));
            opens
        });
        let peer = fifo.release();
        runtime.block_on(async {
            for open in opens {
                open.await.unwrap().unwrap();
            }
        });
        drop(peer);
    });
}

/// Reads that wait for a peer do not hold up reads of files on the same device.
#[test]
fn hung_reads_hold_up_nothing_beside_them() {
    watched("hung reads", || {
        let scratch = Scratch::new("hung-reads");
        let fifo = Fifo::new(scratch.path("fifo"));
        let runtime = Builder::new().workers(2).disk_threads(2).build().unwrap();
        let peer = fifo.release();
        let path = fifo.0.clone();
        let reads = runtime.block_on(async {
            let mut files = Vec::new();
            for _ in 0..40 {
                files.push(File::open(&path).await.unwrap());
            }
            let reads: Vec<_> = (files.into_iter())
                .map(|mut file| evenkeel::spawn(async move { file.read_u8().await }))
                .collect();
            while lane("special").is_none_or(|lane| lane.busy < 16) {
                evenkeel::time::sleep(Duration::from_millis(1)).await;
            }
            ordinary(&scratch.path("file")).await.unwrap();
            reads
        });
        std::io::Write::write_all(&mut &peer, &[7; 40]).unwrap();
        runtime.block_on(async {
            for read in reads {
                assert_eq!(read.await.unwrap().unwrap(), 7);
            }
        });
    });
}

/// Nor does reading a whole file that waits for a peer.
#[test]
fn whole_files_that_hang_hold_up_nothing_beside_them() {
    watched("hung whole files", || {
        let scratch = Scratch::new("hung-whole");
        let fifo = Fifo::new(scratch.path("fifo"));
        let runtime = Builder::new().workers(2).disk_threads(2).build().unwrap();
        runtime.block_on(async {
            let reads: Vec<_> = (0..40)
                .map(|_| evenkeel::spawn(fs::read(fifo.0.clone())))
                .collect();
            while lane("special").is_none_or(|lane| lane.busy < 16) {
                evenkeel::time::sleep(Duration::from_millis(1)).await;
            }
            ordinary(&scratch.path("file")).await.unwrap();
            reads.iter().for_each(|read| read.abort());
        });
        // Repeated, as a peer may be gone again when a thread is about to open the FIFO.
        until("all have been read", || {
            drop(fifo.release());
            let lanes = runtime.stats().lanes;
            let special = lanes.iter().find(|lane| lane.name.ends_with("special"));
            special.is_none_or(|lane| lane.busy + lane.queued == 0)
        });
        runtime.shutdown(Duration::from_secs(60)).unwrap();
    });
}

#[test]
fn what_waits_too_long_fails_and_says_so() {
    watched("wait limit", || {
        let scratch = Scratch::new("wait-limit");
        let fifo = Fifo::new(scratch.path("fifo"));
        let mut builder = Builder::new();
        builder
            .workers(2)
            .disk_wait_limit(Some(Duration::from_millis(50)));
        let runtime = builder.build().unwrap();
        let path = fifo.0.clone();
        runtime.block_on(async {
            let opens: Vec<_> = (0..20)
                .map(|_| evenkeel::spawn(File::open(path.clone())))
                .collect();
            while lane("special").is_none_or(|lane| lane.expired < 4) {
                evenkeel::time::sleep(Duration::from_millis(1)).await;
            }
            // The hung calls hang still; the four that waited have failed.
            assert_eq!(lane("special").unwrap().busy, 16);
            let peer = fifo.release();
            let mut expired = 0;
            for open in opens {
                let Err(error) = open.await.unwrap() else {
                    continue;
                };
                expired += 1;
                assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
                match error.downcast::<LaneError>().unwrap() {
                    LaneError::WaitedTooLong {
                        lane,
                        waited,
                        limit,
                    } => {
                        assert!(lane.ends_with("special"), "{lane}");
                        assert_eq!(limit, Duration::from_millis(50));
                        assert!(waited >= limit, "{waited:?}");
                    }
                    other => panic!("{other}"),
                }
            }
            assert_eq!(expired, 4);
            drop(peer);
        });
    });
}

#[test]
fn a_full_queue_refuses_file_work() {
    watched("full", || {
        let scratch = Scratch::new("queue-full");
        let fifo = Fifo::new(scratch.path("fifo"));
        let mut builder = Builder::new();
        let runtime = builder.workers(2).disk_queue_limit(5).build().unwrap();
        let path = fifo.0.clone();
        runtime.block_on(async {
            let mut opens = Vec::new();
            for number in 1..=21 {
                opens.push(evenkeel::spawn(File::open(path.clone())));
                // A thread that is slow to start leaves its work in the queue, which is short.
                let busy = number.min(16);
                let there =
                    move |lane: LaneStats| (lane.busy, lane.queued) == (busy, number - busy);
                while !lane("special").is_some_and(there) {
                    evenkeel::time::sleep(Duration::from_millis(1)).await;
                }
            }
            let error = File::open(&path).await.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::ResourceBusy);
            assert!(error.to_string().contains("special` is full"), "{error}");
            assert_eq!(lane("special").unwrap().refused, 1);
            let peer = fifo.release();
            for open in opens {
                open.await.unwrap().unwrap();
            }
            drop(peer);
        });
    });
}

/// A call whose future is dropped while it waits is not made.
#[test]
fn what_is_given_up_while_it_waits_is_not_done() {
    watched("given up", || {
        let scratch = Scratch::new("calls-given-up");
        let fifo = Fifo::new(scratch.path("fifo"));
        let runtime = Builder::new().workers(1).build().unwrap();
        let path = fifo.0.clone();
        runtime.block_on(async {
            let opens: Vec<_> = (0..30)
                .map(|_| evenkeel::spawn(File::open(path.clone())))
                .collect();
            let begun = |lane: LaneStats| lane.busy == 16 && lane.queued == 14;
            while !lane("special").is_some_and(begun) {
                evenkeel::time::sleep(Duration::from_millis(1)).await;
            }
            opens.iter().for_each(|open| open.abort());
            for open in opens {
                assert!(open.await.unwrap_err().is_cancelled());
            }
            let peer = fifo.release();
            let special = || lane("special").unwrap();
            while special().busy + special().queued > 0 {
                evenkeel::time::sleep(Duration::from_millis(1)).await;
            }
            assert_eq!(special().done, 16, "those that had begun");
            drop(peer);
        });
    });
}

/// How many threads of this name are in a call that opens a file.
fn opening(name: &str) -> usize {
    let of = |thread: &Path, what| std::fs::read_to_string(thread.join(what)).unwrap_or_default();
    let call = format!("{} ", libc::SYS_openat);
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    threads
        .map(|thread| thread.unwrap().path())
        .filter(|thread| of(thread, "comm").trim() == name)
        .filter(|thread| of(thread, "syscall").starts_with(&call))
        .count()
}

#[test]
fn shutdown_with_a_hung_lane_leaves_in_time_and_says_so() {
    watched("shutdown", || {
        let scratch = Scratch::new("hung-shutdown");
        let fifo = Fifo::new(scratch.path("fifo"));
        let mut builder = Builder::new();
        let runtime = builder.workers(1).thread_name("ends").build().unwrap();
        let path = fifo.0.clone();
        runtime.block_on(async {
            for _ in 0..20 {
                drop(evenkeel::spawn(File::open(path.clone())));
            }
            // What a thread has taken and not begun is not done any more.
            while opening("ends-disk-x") < 16 {
                evenkeel::time::sleep(Duration::from_millis(1)).await;
            }
        });
        let began = Instant::now();
        let error = runtime.shutdown(Duration::from_millis(100)).unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(30));
        assert_eq!(error.stuck().len(), 16, "{error}");
        let text = error.to_string();
        assert!(text.contains("ends-disk-x"), "{text}");
        assert!(text.contains("`fs::open`"), "{text}");
        assert!(text.contains("fs_hung.rs"), "{text}");
        drop(fifo.release());
    });
}
