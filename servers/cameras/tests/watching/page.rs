//! Real pictures, read back by ffprobe. Passes without looking where it, or ffmpeg, is not
//! installed.

use std::process::{Command, Output};
use std::time::{SystemTime, UNIX_EPOCH};

use cameras::watch::Settings;

use crate::real::Film;
use crate::support::{Site, runtime};

#[test]
fn nothing_is_loaded_from_elsewhere() {
    for text in [
        include_str!("../../src/watch/page/index.html"),
        include_str!("../../src/watch/page/page.css"),
        include_str!("../../src/watch/page/page.js"),
        include_str!("../../src/watch/page/player.js"),
        include_str!("../../src/watch/page/timeline.js"),
    ] {
        assert!(!text.contains("http:") && !text.contains("//cdn") && !text.contains("@import"));
    }
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

/// Runs a program. `None` if it is not installed.
async fn run(program: &'static str, arguments: Vec<String>) -> Option<Output> {
    let run = move || Command::new(program).args(arguments).output();
    match evenkeel::spawn_blocking(run).await.unwrap() {
        Ok(output) => Some(output),
        Err(error) => {
            eprintln!("{program} cannot be started, so nothing is looked at: {error}");
            None
        }
    }
}

#[test]
fn ffprobe_decodes_every_picture_of_a_clip_and_of_a_snapshot() {
    let Some(film) = Film::make() else {
        return;
    };
    runtime().block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let site = Site::begin(directory.path(), Settings::default()).await;
        let mut showing = film.publish(&site.hub, "yard");
        // Groups of 13 pictures, of which the last one is not complete.
        showing.send(53);
        site.until_written(4).await;
        let around = format!("from={}&until={}", now_ms() - 60_000, now_ms() + 60_000);
        for (path, pictures) in [
            (format!("/api/cameras/yard/clip.mp4?{around}"), "52"),
            ("/api/cameras/yard/snapshot".to_owned(), "1"),
        ] {
            let file = directory.path().join("file.mp4");
            let answer = site.client().get(&path).await;
            assert_eq!(answer.status, 200, "{answer:?}");
            std::fs::write(&file, answer.body).unwrap();
            let entries = "stream=codec_name,width,height,nb_read_frames";
            let arguments = [
                "-v",
                "error",
                "-count_frames",
                "-of",
                "csv=p=0",
                "-show_entries",
            ];
            let arguments = arguments
                .into_iter()
                .chain([entries, file.to_str().unwrap()]);
            let arguments = arguments.map(str::to_owned).collect();
            let Some(probed) = run("ffprobe", arguments).await else {
                return;
            };
            let said = String::from_utf8_lossy(&probed.stdout).into_owned();
            assert_eq!(
                said.trim(),
                format!("h264,320,240,{pictures}"),
                "{probed:?}"
            );
            assert!(probed.stderr.is_empty(), "{probed:?}");
        }
    });
}
