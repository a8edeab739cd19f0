//! The page in a real browser, and real pictures read back by ffprobe. Passes without looking where
//! chromium, ffmpeg or ffprobe is not installed.

use std::process::{Command, Output};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cameras::watch::{Settings, webrtc};

use crate::browser::Browser;
use crate::real::Film;
use crate::support::{Site, runtime, until};

#[test]
fn nothing_is_loaded_from_elsewhere() {
    for text in [
        include_str!("../../src/watch/page/index.html"),
        include_str!("../../src/watch/page/page.css"),
        include_str!("../../src/watch/page/page.js"),
        include_str!("../../src/watch/page/player.js"),
        include_str!("../../src/watch/page/timeline.js"),
        include_str!("../../src/watch/page/webrtc.js"),
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

/// Waits until more pictures of a video have been decoded, and its time has gone on.
async fn goes_on(browser: &mut Browser, video: &str) {
    let shown = format!("{video}?.getVideoPlaybackQuality().totalVideoFrames");
    browser.until(&format!("{shown} > 0")).await;
    let pictures = browser.ask(&shown).await.as_f64().unwrap();
    let time = browser.ask(&format!("{video}.currentTime")).await;
    let time = time.as_f64().unwrap();
    // Since the session began, not since 1970: players count in small numbers.
    assert!(time < 600.0, "{time}");
    let more = format!("{shown} >= {pictures} + 5 && {video}.currentTime > {time} + 0.2");
    browser.until(&more).await;
}

#[test]
fn a_browser_shows_the_right_camera_live_and_what_was_recorded() {
    let Some(film) = Film::make() else {
        return;
    };
    runtime().block_on(async {
        let Some(mut browser) = Browser::begin().await else {
            return;
        };
        let directory = tempfile::tempdir().unwrap();
        let site = Site::begin(directory.path(), Settings::default()).await;
        let began_ms = now_ms();
        let _sends = film
            .publish(&site.hub, "yard")
            .keep_sending(Duration::from_millis(40));
        browser
            .open(&format!("http://{}/", site.server.address()))
            .await;
        let card = "document.querySelector('[href=\"#yard\"] video')";
        goes_on(&mut browser, card).await;
        let other = "document.querySelector('[href=\"#door\"] video').currentTime";
        assert_eq!(browser.ask(other).await, 0, "nobody sends for the door");

        let one = "document.getElementById('video')";
        browser.ask("location.hash = '#yard'").await;
        goes_on(&mut browser, one).await;
        assert_eq!(browser.ask(&format!("{one}.videoWidth")).await, 320);

        site.until_written(4).await;
        let recorded_ms = began_ms + 500;
        browser
            .ask(&format!("location.hash = '#yard@{recorded_ms}'"))
            .await;
        let what = "document.getElementById('what').textContent === 'recorded'";
        browser.until(what).await;
        goes_on(&mut browser, one).await;
        // The line of time marks what is shown, and not what is live now.
        let marked = "Number(document.getElementById('timeline').ariaValueNow) * 1000";
        browser.until(&format!("{marked} >= {recorded_ms}")).await;
        let marked = browser.ask(marked).await.as_f64().unwrap();
        assert!(marked < now_ms() as f64, "{marked}");
    });
}

#[test]
fn a_browser_shows_a_camera_by_webrtc_and_goes_back() {
    let Some(film) = Film::make() else {
        return;
    };
    runtime().block_on(async {
        let Some(mut browser) = Browser::begin().await else {
            return;
        };
        let directory = tempfile::tempdir().unwrap();
        let settings = Settings {
            webrtc: Some(webrtc::Settings {
                listen: "127.0.0.1:0".to_owned(),
                ..webrtc::Settings::default()
            }),
            ..Settings::default()
        };
        let site = Site::begin(directory.path(), settings).await;
        let _sends = film
            .publish(&site.hub, "yard")
            .keep_sending(Duration::from_millis(40));
        let page = format!("http://{}/#yard", site.server.address());
        browser.open(&page).await;
        let button = "document.getElementById('webrtc')";
        let can = format!("{button}?.hidden === false");
        browser.until(&can).await;
        browser.ask(&format!("{button}.click()")).await;
        let what = "document.getElementById('what').textContent";
        browser.until(&format!("{what} === 'live by WebRTC'")).await;
        let one = "document.getElementById('video')";
        goes_on(&mut browser, one).await;
        assert_eq!(browser.ask(&format!("{one}.videoWidth")).await, 320);
        assert_eq!(
            browser.ask(&format!("{one}.srcObject !== null")).await,
            true
        );
        let port = site.server.webrtc().unwrap().port();
        assert_eq!(port.sessions(), 1);
        browser.ask(&format!("{button}.click()")).await;
        browser.until(&format!("{what} === 'live'")).await;
        until("the session is over", || port.sessions() == 0).await;
        goes_on(&mut browser, one).await;
    });
}
