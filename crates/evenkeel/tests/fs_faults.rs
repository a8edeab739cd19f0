//! Full devices, files that may not grow, syncs that fail: the reported errors, and the contents of
//! the file afterwards.

#[path = "support/hang.rs"]
mod hang;
#[path = "support/scratch.rs"]
mod scratch;

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Command;

use evenkeel::fs::{self, File, OpenOptions};
use evenkeel::runtime::Runtime;
use hang::watched;
use scratch::Scratch;
use tokio::io::AsyncWriteExt;

/// A device of one megabyte.
struct Small(PathBuf);

impl Small {
    /// Returns `None`, with a message, if this process may not mount one.
    fn mount(scratch: &Scratch) -> Option<Self> {
        let path = scratch.path("small");
        std::fs::create_dir(&path).unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
            .arg(&path)
            .output();
        match mount {
            Ok(output) if output.status.success() => Some(Self(path)),
            other => {
                eprintln!("skipped: a small tmpfs cannot be mounted here: {other:?}");
                None
            }
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_device_is_reported_with_what_was_written() {
    watched("full device", || {
        let scratch = Scratch::new("full-device");
        let Some(small) = Small::mount(&scratch) else {
            return;
        };
        Runtime::new().unwrap().block_on(async {
            let path = small.0.join("file");
            let file = File::create_new(&path).await.unwrap();
            // A single write is short, and reports its length.
            let (count, _) = file.write_at(vec![1; 2 << 20], 0).await.unwrap();
            assert_eq!(count, 1 << 20);
            assert_eq!(file.metadata().await.unwrap().len(), 1 << 20);
            file.set_len(0).await.unwrap();
            let error = file.write_all_at(vec![1; 2 << 20], 0).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::StorageFull);
            file.set_len(0).await.unwrap();
            let parts = vec![vec![1; 600 << 10]; 2];
            let error = file.write_all_vectored_at(parts, 0).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::StorageFull);
            file.set_len(0).await.unwrap();
            let mut file = file;
            let mut error = None;
            for _ in 0..300 {
                if let Err(failed) = file.write_all(&[2; 8 << 10]).await {
                    error = Some(failed);
                    break;
                }
            }
            let error = match error {
                Some(error) => error,
                None => file.flush().await.unwrap_err(),
            };
            assert_eq!(error.kind(), ErrorKind::StorageFull);
            file.flush().await.unwrap();
            // The contents have no gap: nothing was written behind the failed write.
            let there = std::fs::read(&path).unwrap();
            assert!(there.iter().all(|byte| *byte == 2));
            // A replacement that does not fit leaves only the old file, as it was.
            fs::write(small.0.join("other"), "").await.unwrap();
            file.set_len(4).await.unwrap();
            let error = fs::replace(&path, vec![3; 2 << 20]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::StorageFull);
            assert_eq!(fs::read(&path).await.unwrap(), [2; 4]);
            assert_eq!(std::fs::read_dir(&small.0).unwrap().count(), 2);
            fs::replace(&path, "fits").await.unwrap();
        });
    });
}

#[test]
fn errors_of_each_call_reach_its_caller() {
    watched("errors", || {
        let scratch = Scratch::new("errors");
        Runtime::new().unwrap().block_on(async {
            let path = scratch.path("file");
            fs::write(&path, "text").await.unwrap();
            let mut reader = File::open(&path).await.unwrap();
            assert!(reader.write_all_at("x", 0).await.is_err());
            assert!(reader.set_len(0).await.is_err());
            reader.write_all(b"x").await.unwrap();
            assert!(reader.flush().await.is_err(), "it was opened to be read");
            let writer = OpenOptions::new().write(true).open(&path).await.unwrap();
            assert!(writer.read_at(vec![0; 4], 0).await.is_err());
            // A device that does not support sync.
            let null = OpenOptions::new()
                .write(true)
                .open("/dev/null")
                .await
                .unwrap();
            assert!(null.sync_data().await.is_err());
            assert!(null.sync_all().await.is_err());
            assert_eq!(fs::read(&path).await.unwrap(), b"text");
            assert!(fs::read(scratch.root()).await.is_err());
            let error = fs::create_dir(scratch.root()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AlreadyExists);
            let error = File::create_new(&path).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        });
    });
}

#[test]
fn outside_a_runtime_there_is_an_error() {
    let mut open = std::pin::pin!(File::open("Cargo.toml"));
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(Err(error)) = std::future::Future::poll(open.as_mut(), &mut cx)
    else {
        panic!("it cannot have been opened");
    };
    assert!(error.to_string().contains("no evenkeel runtime"), "{error}");
}
