//! A process that has no descriptor left. The only test here, since all of a program's tests have
//! one table of them.

mod support;

use std::fs::File;
use std::time::Duration;

use evenkeel::time::{sleep, timeout};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use support::{LIMIT, check_numbered, fill, run, small};
use txlog::log::{LocalDisk, Log};

/// Takes all that are left.
fn take_all(taken: &mut Vec<File>) {
    taken.extend(std::iter::from_fn(|| File::open("/dev/null").ok()));
}

#[test]
fn a_log_goes_on_while_the_process_has_no_descriptor_left() {
    let directory = tempfile::tempdir().unwrap();
    run(async {
        let disk = LocalDisk::hold(directory.path()).await.unwrap();
        let (log, _) = Log::open(disk, small()).await.unwrap();
        let segments = || log.figures().segments.unwrap();
        fill(&log, 20).await;
        // Everything is there that the runtime makes when it is first needed.
        log.maintain().await.unwrap();
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, hard.min(200), hard).unwrap();
        let mut taken = Vec::new();
        let put_off = async {
            loop {
                // Earlier files are closed by another thread, a moment later.
                take_all(&mut taken);
                fill(&log, 3).await;
                if let Err(put_off) = log.maintain().await {
                    return put_off.to_string();
                }
            }
        };
        let said = timeout(LIMIT, put_off).await.expect("a file is needed");
        assert!(said.contains("cannot make"), "{said}");
        fill(&log, 20).await;
        assert!(log.failure().is_none());
        // With one descriptor, for the next file, all the rest is done. Then there is none again,
        // until the earlier file is closed.
        let before = segments();
        taken.pop();
        for more in 1..4 {
            let again = async {
                while segments() < before + more {
                    fill(&log, 3).await;
                    sleep(Duration::from_millis(10)).await;
                }
            };
            timeout(LIMIT, again).await.expect("a new segment begins");
            assert!(log.failure().is_none());
        }
        drop(taken);
        let well = async {
            while log.maintain().await.is_err() {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(LIMIT, well).await.expect("nothing is in the way");
        fill(&log, 10).await;
        assert!(check_numbered(&log).await > 50);
        log.close().await.unwrap();
    });
}
