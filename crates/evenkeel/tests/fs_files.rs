//! Files: written bytes are read back, in every way to do so.

#[path = "support/hang.rs"]
mod hang;
#[path = "support/scratch.rs"]
mod scratch;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel::fs::{self, File};
use evenkeel::runtime::{Builder, Handle, Runtime};
use evenkeel::stats::LaneStats;
use hang::{until, watched};
use scratch::Scratch;

#[test]
fn what_is_written_at_an_offset_is_read_there() {
    watched("offsets", || {
        let scratch = Scratch::new("offsets");
        Runtime::new().unwrap().block_on(async {
            let file = File::create_new(scratch.path("a")).await.unwrap();
            file.write_all_at("hello", 0).await.unwrap();
            let (count, bytes) = file.write_at(b"world".to_vec(), 10).await.unwrap();
            assert_eq!((count, bytes), (5, b"world".to_vec()));
            let parts = vec!["", "ab", "", "cd", ""];
            file.write_all_vectored_at(parts, 5).await.unwrap();
            assert_eq!(file.metadata().await.unwrap().len(), 15);
            file.sync_data().await.unwrap();
            file.sync_all().await.unwrap();
            let all = file.read_at(vec![1; 100], 0).await.unwrap();
            assert_eq!(all, b"helloabcd\0world");
            assert_eq!(file.read_exact_at(vec![0; 5], 10).await.unwrap(), b"world");
            let error = file.read_exact_at(vec![0; 6], 10).await.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
            assert_eq!(file.read_at(vec![0; 5], 15).await.unwrap(), b"");
            file.set_len(2).await.unwrap();
            assert_eq!(file.read_at(vec![0; 5], 0).await.unwrap(), b"he");
            let clone = file.try_clone().await.unwrap();
            clone.write_all_at("HE", 0).await.unwrap();
            drop(clone);
            let std = file.into_std().await;
            let mut buffer = [0; 2];
            std::os::unix::fs::FileExt::read_exact_at(&std, &mut buffer, 0).unwrap();
            assert_eq!(&buffer, b"HE");
        });
    });
}

/// More buffers than one system call takes.
#[test]
fn any_number_of_buffers_is_written() {
    watched("buffers", || {
        let scratch = Scratch::new("buffers");
        Runtime::new().unwrap().block_on(async {
            let path = scratch.path("a");
            let file = File::create_new(&path).await.unwrap();
            let buffers: Vec<String> = (0..3_000).map(|number| format!("{number},")).collect();
            let expected = buffers.concat();
            let back = file.write_all_vectored_at(buffers, 2).await.unwrap();
            assert_eq!(back.len(), 3_000);
            let written = std::fs::read(&path).unwrap();
            assert_eq!(written[2..], *expected.as_bytes());
        });
    });
}

#[test]
fn directories_and_names() {
    watched("names", || {
        let scratch = Scratch::new("names");
        Runtime::new().unwrap().block_on(async {
            let deep = scratch.path("a/b/c");
            fs::create_dir_all(&deep).await.unwrap();
            for number in 0..150 {
                File::create(deep.join(number.to_string())).await.unwrap();
            }
            let mut names = Vec::new();
            let mut entries = fs::read_dir(&deep).await.unwrap();
            while let Some(entry) = entries.next_entry().await.unwrap() {
                assert!(entry.file_type().await.unwrap().is_file());
                assert_eq!(entry.metadata().await.unwrap().len(), 0);
                names.push(entry.file_name().into_string().unwrap());
            }
            names.sort_by_key(|name| name.parse::<u32>().unwrap());
            let expected: Vec<String> = (0..150).map(|number| number.to_string()).collect();
            assert_eq!(names, expected);
            fs::rename(deep.join("0"), deep.join("zero")).await.unwrap();
            assert!(!fs::try_exists(deep.join("0")).await.unwrap());
            fs::hard_link(deep.join("zero"), deep.join("null"))
                .await
                .unwrap();
            fs::symlink("zero", deep.join("link")).await.unwrap();
            let link = fs::read_link(deep.join("link")).await.unwrap();
            assert_eq!(link.to_str(), Some("zero"));
            let link = deep.join("link");
            assert!(fs::symlink_metadata(&link).await.unwrap().is_symlink());
            assert!(fs::metadata(&link).await.unwrap().is_file());
            let straight = fs::canonicalize(&link).await.unwrap();
            assert!(straight.ends_with("a/b/c/zero"));
            fs::remove_file(&link).await.unwrap();
            let error = fs::remove_dir(&deep).await.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::DirectoryNotEmpty);
            fs::remove_dir_all(scratch.path("a")).await.unwrap();
            let error = fs::metadata(&deep).await.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
            let error = File::open(deep.join("none")).await.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
        });
    });
}

/// A file that only its owner may read is not open to others while it is replaced.
#[test]
fn a_replacement_is_no_more_open_than_what_it_replaces() {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    watched("secret", || {
        let scratch = Scratch::new("secret");
        let path = scratch.path("secret");
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        Runtime::new().unwrap().block_on(async {
            let replaced = evenkeel::spawn(fs::replace(path.clone(), vec![1; 64 << 20]));
            let mut open = 0;
            while !replaced.is_finished() {
                for entry in std::fs::read_dir(path.parent().unwrap()).unwrap() {
                    // It may have its final name by now, or be gone.
                    if let Ok(metadata) = entry.unwrap().metadata() {
                        open |= metadata.permissions().mode() & 0o077;
                    }
                }
                evenkeel::task::yield_now().await;
            }
            replaced.await.unwrap().unwrap();
            assert_eq!(open, 0, "others could open it");
            assert_eq!(std::fs::metadata(&path).unwrap().len(), 64 << 20);
        });
    });
}

/// Polls a future, made anew each time, until it fails at once.
fn until_it_fails<T>(cx: &mut Context<'_>, make: impl AsyncFn() -> std::io::Result<T>) {
    while !matches!(pin!(make()).poll(cx), Poll::Ready(Err(_))) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The queues of the lanes that would tidy up are full.
#[test]
fn a_replacement_that_the_end_breaks_off_leaves_nothing() {
    watched("broken off", || {
        let scratch = Scratch::new("broken-off");
        let path = scratch.path("file");
        std::fs::write(&path, "old").unwrap();
        let mut builder = Builder::new();
        let runtime = builder.workers(1).hand_off_after(None).build().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let replaced = path.clone();
        let replacing = runtime.spawn(async move {
            // From now on the device of the directory is known.
            let file = File::open(&replaced).await.unwrap();
            let mut replacing = pin!(fs::replace(replaced, "new"));
            poll_fn(|cx| {
                assert!(replacing.as_mut().poll(cx).is_pending());
                let handle = Handle::current();
                let written = |lane: &LaneStats| lane.name.ends_with(" data") && lane.done > 0;
                until("written", || handle.stats().lanes.iter().any(written));
                tell.send(()).unwrap();
                until_it_fails(cx, || file.sync_all());
                Poll::Ready(())
            })
            .await;
            replacing.await
        });
        told.recv().unwrap();
        runtime.shutdown(Duration::from_secs(60)).unwrap();
        let names = std::fs::read_dir(scratch.root()).unwrap();
        let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["file"]);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        drop(replacing);
    });
}
