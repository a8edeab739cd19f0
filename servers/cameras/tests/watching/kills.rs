//! A process that records is killed, and the next one finds all but what was being written.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use cameras::hub::{Hub, Limits};
use cameras::record::clip::{Clip, Purpose};
use cameras::record::listing::ranges;

use crate::support::{GROUP_MS, Sender, recordings, runtime, until};

/// Where the process that is killed records.
const DIRECTORY: &str = "EVENKEEL_CAMERAS_KILLED";

#[test]
#[ignore = "started by the test below, which kills it"]
fn records_until_it_is_killed() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    runtime().block_on(async {
        let hub = Hub::new(Limits::default());
        hub.add("yard").unwrap();
        let recordings = recordings(&hub, Path::new(&directory));
        let mut camera = Sender::new(&hub, "yard");
        for groups in 1..=9 {
            camera.send(1);
            until("it is written", || {
                recordings.status_of("yard").unwrap().reported.gops >= groups
            })
            .await;
            println!("written {groups}");
        }
        std::future::pending::<()>().await;
    });
}

#[test]
fn a_kill_costs_a_group_at_most() {
    for after in [1, 4, 9] {
        let directory = tempfile::tempdir().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "kills::records_until_it_is_killed",
                "--ignored",
                "--nocapture",
            ])
            .env(DIRECTORY, directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let told = lines.map_while(Result::ok).filter_map(|line| {
            line.rsplit_once("written ")
                .and_then(|(_, groups)| groups.parse::<u64>().ok())
        });
        let written = told.take(after).last();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(written, Some(after as u64));
        runtime().block_on(recovered(directory.path(), after as u64));
    }
}

/// All groups that were said to be written are there, and can be read.
async fn recovered(directory: &Path, groups: u64) {
    let hub = Hub::new(Limits::default());
    hub.add("yard").unwrap();
    let recordings = recordings(&hub, directory);
    until("it is recovered", || {
        recordings.status_of("yard").unwrap().bytes > 0
    })
    .await;
    let volume = recordings.volume_of("yard").unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now_ms = u64::try_from(now.as_millis()).unwrap();
    let (from, until) = (now_ms - 600_000, now_ms + 600_000);
    let (found, missing) = ranges(&volume, "yard", from, until).await.unwrap();
    assert_eq!(
        (found.len(), missing.len()),
        (1, 0),
        "{found:?} {missing:?}"
    );
    let lasts = found[0].until_ms - found[0].from_ms;
    assert!(lasts >= groups * GROUP_MS, "{lasts} ms of {groups} groups");
    let mut clip = Clip::plan(&volume, "yard", from, until, Purpose::Keep)
        .await
        .unwrap();
    let mut whole = 0;
    while clip.next().await.unwrap().is_some() {
        whole += 1;
    }
    assert_eq!((whole * GROUP_MS, clip.damaged()), (lasts, 0));
}
