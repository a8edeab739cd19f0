//! The directory of a log: one server at a time, files of nobody else, and what happens when it is
//! moved away.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::{check_numbered, fill, run, small};
use txlog::log::{Disk, LocalDisk, Log, LogConfig, LogError, verify};

async fn open(path: &Path) -> Log<LocalDisk> {
    let disk = LocalDisk::hold(path).await.unwrap();
    Log::open(disk, small()).await.unwrap().0
}

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    let mut names: Vec<String> = entries.map(|e| name(e).into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_removed_lock_file_lets_no_second_server_in() {
    let directory = tempfile::tempdir().unwrap();
    let lock = directory.path().join("LOCK");
    run(async {
        let disk = LocalDisk::hold(directory.path()).await.unwrap();
        fs::remove_file(&lock).unwrap();
        let second = LocalDisk::hold(directory.path()).await;
        assert_eq!(second.unwrap_err().kind(), std::io::ErrorKind::ResourceBusy);
        drop(disk);
        LocalDisk::hold(directory.path()).await.unwrap();
    });
}

#[test]
fn a_disk_of_this_machine_has_some_room() {
    let directory = tempfile::tempdir().unwrap();
    run(async {
        let log = open(directory.path()).await;
        log.look().await.unwrap();
        let room = LocalDisk::borrow(directory.path()).room().await.unwrap();
        assert!(room.is_some_and(|bytes| bytes > 0), "{room:?}");
    });
}

/// Earlier releases lock the file alone.
#[test]
fn a_server_of_an_earlier_release_and_this_one_refuse_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let lock = directory.path().join("LOCK");
    run(async {
        let earlier = fs::File::create(&lock).unwrap();
        earlier.try_lock().unwrap();
        let refused = LocalDisk::hold(directory.path()).await.unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ResourceBusy);
        assert!(LocalDisk::borrow(directory.path()).is_live().await.unwrap());
        drop(earlier);
        let disk = LocalDisk::hold(directory.path()).await.unwrap();
        let earlier = fs::File::options().write(true).open(&lock).unwrap();
        assert!(earlier.try_lock().is_err());
        drop(disk);
        earlier.try_lock().unwrap();
    });
}

#[test]
fn readers_know_whether_a_server_has_the_directory_and_can_keep_it_out() {
    let directory = tempfile::tempdir().unwrap();
    run(async {
        let reader = LocalDisk::borrow(directory.path());
        assert!(!reader.is_live().await.unwrap());
        let server = LocalDisk::hold(directory.path()).await.unwrap();
        assert!(reader.is_live().await.unwrap());
        let stopped = LocalDisk::borrow_stopped(directory.path()).await.unwrap();
        assert!(stopped.is_none());
        drop(server);
        let stopped = LocalDisk::borrow_stopped(directory.path())
            .await
            .unwrap()
            .unwrap();
        let other = LocalDisk::borrow_stopped(directory.path()).await.unwrap();
        assert!(other.is_some(), "there may be several readers");
        drop(other);
        let server = LocalDisk::hold(directory.path()).await;
        assert_eq!(server.unwrap_err().kind(), std::io::ErrorKind::ResourceBusy);
        drop(stopped);
        LocalDisk::hold(directory.path()).await.unwrap();
    });
}

type Displace = fn(&Path);

/// What may happen to a directory under a server.
fn displacements() -> [(&'static str, Displace); 3] {
    [
        ("moved away", |log| {
            fs::rename(log, log.with_extension("old")).unwrap()
        }),
        ("replaced", |log| {
            fs::rename(log, log.with_extension("old")).unwrap();
            fs::create_dir(log).unwrap();
        }),
        ("its newest file was removed", |log| {
            let newest = names(log).into_iter().rfind(|name| name.ends_with(".seg"));
            fs::remove_file(log.join(newest.unwrap())).unwrap();
        }),
    ]
}

#[test]
fn a_log_whose_directory_is_gone_takes_no_more_records() {
    for (what, displace) in displacements() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        run(async {
            let log = open(&path).await;
            fill(&log, 3).await;
            log.maintain().await.unwrap();
            displace(&path);
            for _ in 0..2 {
                let error = log.maintain().await.unwrap_err();
                assert!(
                    matches!(error, LogError::Displaced { .. }),
                    "{what}: {error}"
                );
                let above = directory.path().to_str().unwrap();
                assert!(
                    !error.to_string().contains(above),
                    "clients are told: {error}"
                );
                let error = log.append("lost").await.unwrap_err();
                assert!(
                    matches!(error, LogError::Displaced { .. }),
                    "{what}: {error}"
                );
            }
            assert!(
                matches!(log.failure(), Some(LogError::Displaced { .. })),
                "{what}"
            );
            assert_eq!(check_numbered(&log).await, 3, "it can still be read");
            assert!(log.close().await.is_err(), "{what}");
        });
    }
}

#[test]
fn no_segment_is_made_in_a_directory_that_took_the_logs_place() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    run(async {
        let log = open(&path).await;
        fs::rename(&path, directory.path().join("old")).unwrap();
        fs::create_dir(&path).unwrap();
        for number in 0..100 {
            if log.append(vec![1; 100]).await.is_err() {
                break;
            }
            assert!(number < 50, "it goes on in a directory that is gone");
        }
        assert!(names(&path).is_empty(), "{:?}", names(&path));
        assert!(matches!(log.failure(), Some(LogError::Displaced { .. })));
    });
}

#[test]
fn only_the_logs_user_may_read_its_files() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("above/log");
    run(async {
        let log = open(&path).await;
        fill(&log, 20).await;
        log.close().await.unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o700, 0o700));
        let names = names(&path);
        assert!(names.len() > 3, "{names:?}");
        for name in names {
            assert_eq!(mode(&path.join(&name)), 0o600, "{name}");
        }
    });
}

/// Not even the file that is locked.
#[test]
fn nothing_is_written_into_a_directory_that_is_no_logs() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(path.join("notes.txt"), "mine").unwrap();
    run(async {
        let disk = LocalDisk::hold(path).await.unwrap();
        assert_eq!(names(path), ["notes.txt"]);
        let second = LocalDisk::hold(path).await.unwrap_err();
        assert_eq!(
            second.kind(),
            std::io::ErrorKind::ResourceBusy,
            "it is locked"
        );
        let error = Log::open(disk.clone(), small()).await.unwrap_err();
        assert!(matches!(error, LogError::Foreign { .. }), "{error}");
        assert!(txlog::log::repair(&disk).await.is_err());
        assert_eq!(names(path), ["notes.txt"]);
    });
}

#[test]
fn a_foreign_file_is_named_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    run(async {
        let log = open(path).await;
        fill(&log, 3).await;
        log.close().await.unwrap();
        drop(log);
        // These are known.
        fs::create_dir(path.join("lost+found")).unwrap();
        fs::write(path.join("00000000000000000001.seg.40-1.cut"), "kept").unwrap();
        let disk = loop {
            // The task that wrote keeps the lock for a moment.
            match LocalDisk::hold(path).await {
                Ok(disk) => break disk,
                Err(_) => evenkeel::task::yield_now().await,
            }
        };
        verify(&disk, |_, _, _| ()).await.unwrap();
        for strange in ["notes.txt", "1.seg", "00000000000000000001.seg.bak"] {
            fs::write(path.join(strange), "mine").unwrap();
            let error = Log::open(disk.clone(), LogConfig::default())
                .await
                .unwrap_err();
            assert!(
                matches!(&error, LogError::Foreign { name } if name == strange),
                "{error}"
            );
            assert!(verify(&disk, |_, _, _| ()).await.is_err());
            assert_eq!(fs::read(path.join(strange)).unwrap(), b"mine");
            fs::remove_file(path.join(strange)).unwrap();
        }
        let (log, _) = Log::open(disk, LogConfig::default()).await.unwrap();
        assert_eq!(check_numbered(&log).await, 3);
    });
}
