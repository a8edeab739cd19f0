//! A device that breaks: each call's error reaches its caller, and no later call behaves as if it
//! had succeeded. The kernel makes the calls fail.
#![cfg(target_os = "linux")]

#[path = "support/hang.rs"]
mod hang;
#[path = "support/refusal.rs"]
mod refusal;
#[path = "support/scratch.rs"]
mod scratch;

use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use evenkeel::fs::{self, File, OpenOptions};
use evenkeel::runtime::{Handle, Runtime};
use hang::watched;
use refusal::{Refusal, where_refused};
use scratch::Scratch;
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

/// Calls with these numbers fail as they do on a broken device.
fn broken(calls: &[i64], descriptor: Option<i32>) -> Vec<Refusal> {
    let refusal = |&call| Refusal {
        call,
        descriptor,
        error: libc::EIO,
    };
    calls.iter().map(refusal).collect()
}

#[track_caller]
fn assert_broken<T: std::fmt::Debug>(result: io::Result<T>) {
    assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::EIO));
}

/// A file with a descriptor that no other file gets, so that only calls on it can be made to fail.
fn far_file(path: &Path) -> std::fs::File {
    let mut options = std::fs::OpenOptions::new();
    let file = options.read(true).write(true).create(true).open(path);
    let far = rustix::io::fcntl_dupfd_cloexec(file.unwrap(), 700).unwrap();
    far.into()
}

#[test]
fn a_sync_that_fails_is_heard_of_each_time() {
    watched("syncs", || {
        let scratch = Scratch::new("failing-syncs");
        let refusals = broken(&[libc::SYS_fsync, libc::SYS_fdatasync], None);
        where_refused(&refusals, || {
            Runtime::new().unwrap().block_on(syncs_fail(&scratch));
        });
    });
}

async fn syncs_fail(scratch: &Scratch) {
    let path = scratch.path("file");
    let mut file = File::create_new(&path).await.unwrap();
    for _ in 0..3 {
        file.write_all_at("text", 0).await.unwrap();
        assert_broken(file.sync_data().await);
        assert_broken(file.sync_all().await);
    }
    file.write_all(b"TE").await.unwrap();
    assert_broken(file.sync_data().await);
    assert_eq!(file.read_exact_at(vec![0; 4], 0).await.unwrap(), b"TExt");
    assert_broken(fs::sync_dir(scratch.root()).await);
    // The old file stays, and no other file is left beside it.
    assert_broken(fs::replace(&path, "new").await);
    assert_eq!(fs::read(&path).await.unwrap(), b"TExt");
    assert_eq!(std::fs::read_dir(scratch.root()).unwrap().count(), 1);
    let stats = Handle::current().stats();
    let lane = stats.lanes.iter().find(|lane| lane.name.ends_with("sync"));
    assert_eq!(lane.unwrap().limit, 1, "one sync at a time on each device");
}

#[test]
fn reads_and_writes_at_an_offset_that_fail_are_heard_of() {
    watched("offsets", || {
        let scratch = Scratch::new("failing-offsets");
        let file = far_file(&scratch.path("file"));
        let calls = [
            libc::SYS_pread64,
            libc::SYS_preadv2,
            libc::SYS_pwrite64,
            libc::SYS_pwritev,
            libc::SYS_ftruncate,
        ];
        where_refused(&broken(&calls, Some(file.as_raw_fd())), || {
            Runtime::new().unwrap().block_on(async {
                let file = File::from_std(file).unwrap();
                assert_broken(file.read_at(vec![0; 10], 0).await);
                assert_broken(file.read_exact_at(vec![0; 10], 0).await);
                assert_broken(file.write_at("text", 0).await);
                assert_broken(file.write_all_at("text", 0).await);
                assert_broken(file.write_all_vectored_at(vec!["te", "xt"], 0).await);
                assert_broken(file.set_len(10).await);
                // More at a time than threads read without asking the cache first.
                let file = std::sync::Arc::new(file);
                let reads: Vec<_> = (0..64)
                    .map(|_| {
                        let file = std::sync::Arc::clone(&file);
                        evenkeel::spawn(async move { file.read_at(vec![0; 100_000], 0).await })
                    })
                    .collect();
                for read in reads {
                    assert_broken(read.await.unwrap());
                }
                file.sync_all().await.unwrap();
                assert_eq!(file.metadata().await.unwrap().len(), 0);
            });
        });
    });
}

#[test]
fn what_fails_in_sequence_is_heard_of_once_and_nothing_is_written_behind_it() {
    watched("sequence", || {
        let scratch = Scratch::new("failing-sequence");
        let path = scratch.path("file");
        let file = far_file(&path);
        std::fs::write(&path, "old").unwrap();
        let calls = [libc::SYS_read, libc::SYS_write];
        where_refused(&broken(&calls, Some(file.as_raw_fd())), || {
            Runtime::new().unwrap().block_on(async {
                let mut file = File::from_std(file).unwrap();
                for _ in 0..2 {
                    assert_broken(file.read_u8().await);
                }
                let after: [fn(&mut File) -> Heard<'_>; 4] = [
                    |file| Box::pin(file.flush()),
                    |file| Box::pin(file.shutdown()),
                    |file| Box::pin(file.sync_data()),
                    |file| Box::pin(file.sync_all()),
                ];
                for hear in after {
                    file.write_all(b"new").await.unwrap();
                    assert_broken(hear(&mut file).await);
                    hear(&mut file).await.unwrap();
                }
                // A write returns the error of the one before it, and is not made.
                file.write_all(b"new").await.unwrap();
                let mut second = file.write_all(b"more").await;
                while second.is_ok() {
                    second = file.write_all(b"more").await;
                }
                assert_broken(second);
                file.rewind().await.unwrap();
                drop(file);
                let mut again = OpenOptions::new().read(true).open(&path).await.unwrap();
                let mut text = String::new();
                again.read_to_string(&mut text).await.unwrap();
                assert_eq!(text, "old");
            });
        });
    });
}

type Heard<'a> = std::pin::Pin<Box<dyn Future<Output = io::Result<()>> + 'a>>;
