//! What a client receives: all of it after losses, from a key frame on when it asks for one, and
//! sound as the camera has sent it.

use std::time::Duration;

use cameras::media::{Codec, Law};
use cameras::watch::webrtc;

use super::settings;
use super::viewer::{Camera, Viewer, g711, sound_of, track};
use crate::support::{LIMIT, Site, runtime};

/// The numbers that follow each other from this one on.
fn numbers(first: u8) -> impl Iterator<Item = u8> {
    (0..250_u8).cycle().skip(usize::from(first))
}

#[test]
fn packets_that_are_lost_come_again_and_every_picture_is_whole() {
    runtime().block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let site = Site::begin(directory.path(), settings(webrtc::Settings::default())).await;
        let mut camera = Camera::begin(&site.hub);
        camera.send();
        let _sends = camera.keep_sending(Duration::from_millis(30));
        let (mut viewer, _) = Viewer::watching(&site).await;
        viewer.loses_one_in = 10;
        let is_enough = |it: &Viewer| it.lost > 15 && it.whole().len() > 40;
        viewer
            .until("pictures come in spite of losses", is_enough)
            .await;
        let whole = viewer.whole();
        let came = whole.iter().map(|(number, _)| *number);
        assert!(came.eq(numbers(whole[0].0).take(whole.len())), "{whole:?}");
        assert!(whole[0].1, "it begins with a key frame");
        let counts = site.server.webrtc().unwrap().port().counts();
        assert_eq!(
            counts.rewinds.total(),
            0,
            "nothing was sent from the key frame on again"
        );
    });
}

#[test]
fn who_asks_for_a_key_frame_is_sent_the_newest_one_and_what_followed_it() {
    runtime().block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let site = Site::begin(directory.path(), settings(webrtc::Settings::default())).await;
        // The first one is the newest one for as long as the test lasts.
        let mut camera = Camera::of(&site.hub, g711(Law::A), 100_000);
        camera.send();
        let _sends = camera.keep_sending(Duration::from_millis(20));
        let (mut viewer, _) = Viewer::watching(&site).await;
        viewer
            .until("pictures come", |it| it.whole().len() > 3)
            .await;
        let counts = site.server.webrtc().unwrap().port().counts();
        let keys = |it: &Viewer| it.whole().iter().filter(|(_, is_key)| *is_key).count();
        assert_eq!(keys(&viewer), 1);
        // It is not gone back to within a second of the beginning.
        let began = evenkeel::time::Instant::now();
        while counts.rewinds.total() == 0 {
            assert!(began.elapsed() < LIMIT, "no key frame was gone back to");
            viewer.ask_for_key();
            let had = viewer.whole().len();
            viewer
                .until("pictures go on", |it| it.whole().len() > had)
                .await;
        }
        viewer
            .until("the key frame comes again", |it| keys(it) == 2)
            .await;
        let at = viewer.whole().iter().rposition(|(_, is_key)| *is_key);
        let at = at.unwrap();
        viewer
            .until("it is live again", |it| it.whole().len() > 2 * at + 5)
            .await;
        let whole = viewer.whole();
        let came = |part: &[(u8, bool)]| part.iter().map(|(number, _)| *number).collect::<Vec<_>>();
        let (before, after) = whole.split_at(at);
        for part in [before, after] {
            assert_eq!(came(part), numbers(0).take(part.len()).collect::<Vec<_>>());
        }
    });
}

#[test]
fn sound_is_passed_on_as_it_is() {
    for sound in [
        track(1, Codec::Opus { channels: 1 }, 48_000),
        g711(Law::Mu),
        g711(Law::A),
    ] {
        runtime().block_on(async {
            let directory = tempfile::tempdir().unwrap();
            let site = Site::begin(directory.path(), settings(webrtc::Settings::default())).await;
            let mut camera = Camera::of(&site.hub, sound.clone(), 10);
            camera.send();
            let _sends = camera.keep_sending(Duration::from_millis(4));
            let (mut viewer, _) = Viewer::watching(&site).await;
            viewer
                .until("sound comes", |it| it.sound().len() > 40)
                .await;
            let came = viewer.sound();
            let (first, began) = (came[0], came[0].payload[0]);
            for packet in &came {
                // A busy machine may lose some, which are not sent again.
                let later = *packet.seq_no - *first.seq_no;
                let number = numbers(began).nth(usize::try_from(later).unwrap());
                assert_eq!(*packet.payload, *sound_of(number.unwrap()), "{sound:?}");
                let ticks = packet.time.numer() - first.time.numer();
                assert_eq!(ticks, later * u64::from(sound.clock_rate) / 25, "{sound:?}");
            }
        });
    }
}
