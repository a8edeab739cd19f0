//! HLS: playlists that wait, parts, and snapshots.

use std::time::{Duration, Instant};

use cameras::watch::Settings;

use crate::support::{Answer, Client, LIMIT, Sender, Site, boxes, runtime, until};

/// A site whose camera `yard` is watched, and has sent some groups since, with the answer to who
/// began to watch.
async fn watched(directory: &std::path::Path) -> (Site, Sender, Answer) {
    let site = Site::begin(directory, Settings::default()).await;
    let client = site.client();
    let mut camera = Sender::new(&site.hub, "yard");
    camera.send(1);
    // The camera is watched from here on.
    let asks = evenkeel::spawn(async move { client.get("/api/cameras/yard/live.m3u8").await });
    until("somebody watches", || {
        site.hub.status_of("yard").unwrap().viewers == 1
    })
    .await;
    camera.send(6);
    let first = asks.await.unwrap();
    (site, camera, first)
}

/// The addresses in a playlist of [`watched`] once all that was sent is in it: a camera is read by
/// a task of its own.
async fn all_parts(client: &Client) -> Vec<String> {
    let began = Instant::now();
    loop {
        let playlist = client.get("/api/cameras/yard/parts.m3u8").await;
        let addresses = quoted(playlist.text());
        if addresses.last().unwrap() == "live/2/9.m4s" {
            return addresses;
        }
        assert!(began.elapsed() < LIMIT, "{playlist:?}");
        evenkeel::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The addresses that a playlist names in quotes.
fn quoted(text: &str) -> Vec<String> {
    let quoted = |line: &str| Some(line.split("URI=\"").nth(1)?.split('"').next()?.to_owned());
    text.lines().filter_map(quoted).collect()
}

#[test]
fn a_player_finds_every_part() {
    runtime().block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let (site, _camera, first) = watched(directory.path()).await;
        let client = site.client();
        assert_eq!(first.status, 200, "{first:?}");
        assert!(
            first.text().contains("CODECS=\"avc1.64000D\""),
            "{}",
            first.text()
        );
        assert!(first.text().ends_with("\nparts.m3u8\n"));
        let playlist = client.get("/api/cameras/yard/parts.m3u8").await;
        let text = playlist.text();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let segment = client.get(&format!("/api/cameras/yard/{line}")).await;
            assert_eq!(boxes(&segment.body)[..2], ["moof", "mdat"]);
        }
        let addresses = quoted(text);
        assert!(
            addresses[0].ends_with("init.mp4") && addresses.len() > 3,
            "{text}"
        );
        for (place, address) in addresses.iter().enumerate() {
            let piece = client.get(&format!("/api/cameras/yard/{address}")).await;
            let expected = if place == 0 {
                ["ftyp", "moov"]
            } else {
                ["moof", "mdat"]
            };
            assert_eq!(boxes(&piece.body), expected, "{address}");
        }
        let gone = client.get("/api/cameras/yard/live/9000.m4s").await;
        assert_eq!(gone.status, 404);
    });
}

#[test]
fn the_first_playlist_has_a_segment_for_players_that_know_no_parts() {
    runtime().block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let site = Site::begin(directory.path(), Settings::default()).await;
        let client = site.client();
        let mut camera = Sender::new(&site.hub, "yard");
        camera.send(1);
        let first = client.clone();
        let waits = evenkeel::spawn(async move { first.get("/api/cameras/yard/parts.m3u8").await });
        until("somebody watches", || {
            site.hub.status_of("yard").unwrap().viewers == 1
        })
        .await;
        camera.send(1);
        // There is a part by now, as this finds it.
        assert_eq!(client.get("/api/cameras/yard/live.m3u8").await.status, 200);
        assert!(!waits.is_finished(), "no segment is complete");
        camera.send(6);
        let playlist = waits.await.unwrap();
        assert!(playlist.text().contains("\n#EXTINF:"), "{playlist:?}");
    });
}

#[test]
fn a_playlist_waits_for_the_part_that_is_asked_for() {
    runtime().block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let (site, mut camera, _) = watched(directory.path()).await;
        let client = site.client();
        let addresses = all_parts(&client).await;
        let last = addresses.last().unwrap().trim_start_matches("live/");
        let (segment, part) = last.trim_end_matches(".m4s").split_once('/').unwrap();
        let part: u64 = part.parse().unwrap();
        let next = format!("_HLS_msn={segment}&_HLS_part={}", part + 1);
        let path = format!("/api/cameras/yard/parts.m3u8?{next}");
        let waits = {
            let client = client.clone();
            evenkeel::spawn(async move { client.get(&path).await })
        };
        evenkeel::time::sleep(Duration::from_millis(20)).await;
        assert!(!waits.is_finished(), "the part has not come");
        camera.send(2);
        let after = waits.await.unwrap();
        assert!(quoted(after.text()).len() > addresses.len());
        for (query, status) in [("_HLS_msn=9000", 400), ("_HLS_part=1", 400)] {
            let answer = client
                .get(&format!("/api/cameras/yard/parts.m3u8?{query}"))
                .await;
            assert_eq!(answer.status, status, "{query}");
        }
    });
}

#[test]
fn a_snapshot_is_the_newest_key_frame() {
    runtime().block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let site = Site::begin(directory.path(), Settings::default()).await;
        let mut camera = Sender::new(&site.hub, "yard");
        camera.send(3);
        let picture = site.client().get("/api/cameras/yard/snapshot").await;
        assert_eq!(picture.status, 200, "{picture:?}");
        assert_eq!(boxes(&picture.body), ["ftyp", "moov", "moof", "mdat"]);
        // The 40th picture of 500 equal bytes.
        assert_eq!(picture.body[picture.body.len() - 500..], [39; 500]);
    });
}
