//! What subscribers are told, against what was pushed; and what is kept.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use proptest::prelude::*;

use super::event::{Event, From, Grain, Limits};
use super::ring::Ring;
use super::*;
use crate::media::{Codec, Data, Moment, Sample, Track};

fn tracks() -> Arc<[Track]> {
    let video = Codec::H264 {
        sps: Bytes::from_static(&[0x67]),
        pps: Bytes::from_static(&[0x68]),
    };
    let of = |(id, codec, clock_rate)| Track {
        id,
        codec,
        clock_rate,
    };
    let sound = Codec::Opus { channels: 1 };
    [(0, video, 1_000), (1, sound, 48_000)].map(of).into()
}

fn at(ms: u64) -> Moment {
    let monotonic = Duration::from_millis(ms);
    Moment {
        wall: SystemTime::UNIX_EPOCH + monotonic,
        monotonic,
    }
}

/// A picture at this time. Pictures are a second apart where they are keys, so that each begins a
/// group.
fn picture(ms: u64, is_key: bool, bytes: usize) -> Sample {
    Sample {
        track: 0,
        dts: ms as i64,
        pts_offset: 0,
        duration: None,
        is_key,
        data: Data::new(vec![vec![7; bytes].into()]),
    }
}

fn ring(limits: Limits) -> Ring {
    let mut ring = Ring::new(limits);
    ring.begin(tracks(), at(0));
    ring
}

fn shown(event: Event) -> String {
    match event {
        Event::Sample(sample) => format!("{}", sample.dts),
        Event::Gop(gop) => format!("gop {} of {}", gop.number, gop.samples.len()),
        Event::Lagged { gops } => format!("lagged {gops}"),
        Event::Parameters { generation, .. } => format!("parameters {generation}"),
        Event::Ended => "ended".to_owned(),
        Event::Removed => "removed".to_owned(),
    }
}

fn times(ring: &mut Ring, key: usize) -> Vec<String> {
    std::iter::from_fn(|| ring.next(key)).map(shown).collect()
}

#[test]
fn a_subscriber_gets_parameters_samples_and_the_end() {
    let mut ring = ring(Limits::default());
    // What comes before a key frame is of no use to anybody.
    ring.push(picture(0, false, 10), at(0), None);
    ring.push(picture(1_000, true, 10), at(1_000), None);
    ring.push(picture(1_100, false, 10), at(1_100), None);
    let now = ring.subscribe(Grain::Samples(From::NewestKey));
    let next = ring.subscribe(Grain::Samples(From::Live));
    let gops = ring.subscribe(Grain::Gops);
    assert_eq!(times(&mut ring, now), ["parameters 1", "1000", "1100"]);
    assert!(times(&mut ring, next).is_empty());
    ring.push(picture(1_200, false, 10), at(1_200), None);
    ring.push(picture(2_000, true, 10), at(2_000), None);
    assert_eq!(times(&mut ring, now), ["1200", "2000"]);
    assert_eq!(times(&mut ring, next), ["parameters 1", "2000"]);
    assert_eq!(times(&mut ring, gops), ["gop 0 of 3"]);
    ring.end(at(2_500));
    assert_eq!(times(&mut ring, now), ["ended"]);
    assert_eq!(times(&mut ring, gops), ["gop 1 of 1", "ended"]);
    ring.begin(tracks(), at(9_000));
    ring.push(picture(5, true, 10), at(9_000), None);
    assert_eq!(times(&mut ring, now), ["parameters 2", "5"]);
    // Who comes between sessions is not told of an end that came before.
    ring.end(at(9_500));
    let late = ring.subscribe(Grain::Samples(From::NewestKey));
    assert!(times(&mut ring, late).is_empty());
}

#[test]
fn a_subscriber_of_groups_that_ends_gets_the_incomplete_one_once() {
    let mut ring = ring(Limits::default());
    let [ends, goes_on] = [ring.subscribe(Grain::Gops), ring.subscribe(Grain::Gops)];
    for step in 0..15 {
        let ms = step * 100;
        ring.push(picture(ms, step % 10 == 0, 10), at(ms), None);
    }
    let rest = std::iter::from_fn(|| ring.rest(ends, at(1_500)));
    let rest: Vec<String> = rest.map(shown).collect();
    assert_eq!(rest, ["gop 0 of 10", "gop 1 of 5"]);
    // For others it grows on.
    ring.push(picture(1_500, false, 10), at(1_500), None);
    ring.push(picture(2_000, true, 10), at(2_000), None);
    assert_eq!(times(&mut ring, goes_on), ["gop 0 of 10", "gop 1 of 6"]);
    assert!(
        ring.rest(ends, at(2_000))
            .is_some_and(|event| shown(event) == "gop 2 of 1")
    );
    ring.end(at(2_500));
    assert_eq!(times(&mut ring, ends), ["ended"]);
}

#[test]
fn what_everybody_has_is_not_kept() {
    let mut ring = ring(Limits::default());
    let slow = ring.subscribe(Grain::Samples(From::NewestKey));
    for second in 0..5 {
        ring.push(
            picture(second * 1_000, true, 1_000),
            at(second * 1_000),
            None,
        );
    }
    assert!(ring.footprint() > 5_000);
    times(&mut ring, slow);
    assert!(ring.footprint() < 2_000);
    ring.push(picture(6_000, true, 1_000), at(6_000), None);
    ring.push(picture(7_000, true, 1_000), at(7_000), None);
    assert!(ring.footprint() > 2_000);
    ring.unsubscribe(slow);
    assert!(ring.footprint() < 2_000);
}

#[test]
fn who_lags_goes_on_at_the_newest_key_frame() {
    let limits = Limits {
        lag_max: Duration::from_secs(3),
        ..Limits::default()
    };
    let mut ring = ring(limits);
    let slow = ring.subscribe(Grain::Samples(From::NewestKey));
    let slow_gops = ring.subscribe(Grain::Gops);
    for second in 0..10 {
        ring.push(picture(second * 1_000, true, 10), at(second * 1_000), None);
        ring.push(
            picture(second * 1_000 + 500, false, 10),
            at(second * 1_000 + 500),
            None,
        );
    }
    assert_eq!(
        times(&mut ring, slow),
        ["lagged 9", "parameters 1", "9000", "9500"]
    );
    // Who takes groups gets all that are kept.
    assert_eq!(times(&mut ring, slow_gops)[..2], ["lagged 6", "gop 6 of 2"]);
}

#[test]
fn a_group_that_has_no_end_is_cut() {
    let limits = Limits {
        camera_bytes_max: 4_000,
        gop_time_max: Duration::from_secs(60),
        ..Limits::default()
    };
    let mut ring = ring(limits);
    let gops = ring.subscribe(Grain::Gops);
    ring.push(picture(0, true, 900), at(0), None);
    for step in 1..8 {
        ring.push(picture(step * 40, false, 900), at(step * 40), None);
        assert!(ring.footprint() <= 4_000);
    }
    let mut seen = Vec::new();
    while let Some(event) = ring.next(gops) {
        if let Event::Gop(gop) = event {
            seen.push(gop.begins_with_key);
        }
    }
    // The first one was dropped; what is kept goes on without a key frame.
    assert!(
        !seen.is_empty() && seen.iter().all(|begins| !begins),
        "{seen:?}"
    );
    let viewer = ring.subscribe(Grain::Samples(From::NewestKey));
    assert!(times(&mut ring, viewer).is_empty());
    ring.push(picture(2_000, true, 10), at(2_000), None);
    assert_eq!(times(&mut ring, viewer), ["parameters 1", "2000"]);
}

#[test]
fn beyond_its_share_a_ring_drops_its_open_group_too() {
    let mut ring = ring(Limits::default());
    // A session that begins between key frames loses nothing for want of memory.
    assert_eq!(ring.push(picture(0, false, 10), at(0), None).dropped, 0);
    let viewer = ring.subscribe(Grain::Samples(From::NewestKey));
    ring.push(picture(0, true, 1_000), at(0), None);
    assert_eq!(times(&mut ring, viewer), ["parameters 1", "0"]);
    let pushed = ring.push(picture(100, false, 1_000), at(100), Some(1_500));
    assert_eq!(pushed.dropped, 2);
    assert_eq!(ring.footprint(), 0);
    let pushed = ring.push(picture(200, false, 10), at(200), None);
    assert_eq!(pushed.dropped, 1);
    ring.push(picture(1_000, true, 10), at(1_000), None);
    assert_eq!(times(&mut ring, viewer), ["lagged 1", "1000"]);
}

#[test]
fn sound_comes_in_groups_too() {
    let mut ring = Ring::new(Limits::default());
    let sound = Track {
        id: 0,
        codec: Codec::Opus { channels: 1 },
        clock_rate: 48_000,
    };
    ring.begin(vec![sound].into(), at(0));
    let gops = ring.subscribe(Grain::Gops);
    for step in 0..100 {
        let mut sample = picture(0, true, 10);
        sample.dts = step * 960;
        ring.push(sample, at(20 * step as u64), None);
    }
    let seen = times(&mut ring, gops);
    assert_eq!(seen, ["gop 0 of 25", "gop 1 of 25", "gop 2 of 25"]);
}

#[derive(Clone, Debug)]
enum Step {
    Push {
        is_key: bool,
        bytes: usize,
        after_ms: u64,
    },
    Take {
        viewer: usize,
        events: usize,
    },
    Session,
    Come {
        viewer: usize,
        live: bool,
    },
    Leave {
        viewer: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let push = (prop::bool::weighted(0.2), 1..400_usize, 1..700_u64).prop_map(
        |(is_key, bytes, after_ms)| Step::Push {
            is_key,
            bytes,
            after_ms,
        },
    );
    let take = (0..3_usize, 1..12_usize).prop_map(|(viewer, events)| Step::Take { viewer, events });
    let come = (0..3_usize, any::<bool>()).prop_map(|(viewer, live)| Step::Come { viewer, live });
    let leave = (0..3_usize).prop_map(|viewer| Step::Leave { viewer });
    let step = prop_oneof![
        8 => push, 6 => take, 1 => Just(Step::Session), 2 => come, 1 => leave
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    /// Each subscriber gets a stream that can be decoded: what it gets between two key frames is
    /// what was pushed, in order and without holes, unless it was told that it lags; and the ring
    /// keeps to its limits.
    #[test]
    fn every_subscriber_gets_what_can_be_decoded(steps in steps()) {
        let limits = Limits {
            camera_bytes_max: 6_000,
            lag_max: Duration::from_secs(4),
            ..Limits::default()
        };
        let mut ring = ring(limits);
        let mut pushed: Vec<(i64, bool)> = Vec::new();
        let mut now = 1_000;
        // A subscriber's key, and the place of its last sample in `pushed`.
        let mut viewers: [Option<(usize, Option<usize>)>; 3] = [None; 3];
        for step in steps {
            match step {
                Step::Push { is_key, bytes, after_ms } => {
                    now += after_ms;
                    let sample = picture(now, is_key, bytes);
                    pushed.push((sample.dts, is_key));
                    ring.push(sample, at(now), None);
                    prop_assert!(ring.footprint() <= limits.camera_bytes_max);
                }
                Step::Session => {
                    ring.begin(tracks(), at(now));
                }
                Step::Come { viewer, live } => {
                    if viewers[viewer].is_none() {
                        let from = if live { From::Live } else { From::NewestKey };
                        viewers[viewer] = Some((ring.subscribe(Grain::Samples(from)), None));
                    }
                }
                Step::Leave { viewer } => {
                    if let Some((key, _)) = viewers[viewer].take() {
                        ring.unsubscribe(key);
                    }
                }
                Step::Take { viewer, events } => {
                    let Some((key, last)) = &mut viewers[viewer] else { continue };
                    for _ in 0..events {
                        match ring.next(*key) {
                            Some(Event::Sample(sample)) => {
                                let place = pushed.iter().position(|(dts, _)| *dts == sample.dts);
                                let place = place.unwrap();
                                match *last {
                                    Some(last) => prop_assert_eq!(place, last + 1),
                                    None => prop_assert!(pushed[place].1),
                                }
                                *last = Some(place);
                            }
                            // A change drops what depends on the key frame before it.
                            Some(Event::Lagged { .. } | Event::Parameters { .. }) => *last = None,
                            Some(event) => prop_assert!(false, "{event:?}"),
                            None => break,
                        }
                    }
                }
            }
        }
    }
}

#[evenkeel::test]
async fn tasks_are_woken_and_slow_ones_hold_up_nobody() {
    let hub = Hub::new(Limits::default());
    hub.add("gate").unwrap();
    assert_eq!(hub.add("gate"), Err(AddError("gate".to_owned())));
    let mut viewer = hub.subscribe("gate", From::NewestKey).unwrap();
    let _stuck = hub.subscribe("gate", From::NewestKey).unwrap();
    let mut groups = hub.subscribe_gops("gate").unwrap();
    let mut publisher = hub.publish("gate", tracks().to_vec()).unwrap();
    let second = hub.publish("gate", tracks().to_vec());
    assert_eq!(second.unwrap_err(), PublishError::Busy("gate".to_owned()));
    let receiving = evenkeel::spawn(async move {
        let mut samples = 0;
        loop {
            match viewer.next().await {
                Event::Sample(_) => samples += 1,
                Event::Removed => return samples,
                _ => {}
            }
        }
    });
    let grouping = evenkeel::spawn(async move {
        let mut samples = 0;
        loop {
            match groups.next().await {
                Event::Gop(gop) => samples += gop.samples.len(),
                Event::Ended => return samples,
                event => panic!("{event:?}"),
            }
        }
    });
    for step in 0..200 {
        publisher.push(picture(step * 100, step % 10 == 0, 100));
        if step % 7 == 0 {
            evenkeel::task::yield_now().await;
        }
    }
    drop(publisher);
    assert_eq!(grouping.await.unwrap(), 200);
    assert!(hub.remove("gate"));
    assert_eq!(receiving.await.unwrap(), 200);
    assert!(hub.subscribe("gate", From::Live).is_err());
}

/// What rings occupy is given back, whoever goes first.
#[evenkeel::test]
async fn nothing_is_left_behind() {
    let hub = Hub::new(Limits {
        subscribers_max: 2,
        ..Limits::default()
    });
    hub.add("gate").unwrap();
    let one = hub.subscribe("gate", From::Live).unwrap();
    let _two = hub.subscribe("gate", From::Live).unwrap();
    let third = hub.subscribe("gate", From::Live);
    assert_eq!(third.unwrap_err(), SubscribeError::Full(2));
    // Recorders are not counted as viewers.
    let _recorder = hub.subscribe_gops("gate").unwrap();
    drop(one);
    let one = hub.subscribe("gate", From::Live).unwrap();
    let mut publisher = hub.publish("gate", tracks().to_vec()).unwrap();
    for step in 0..50 {
        publisher.push(picture(step * 1_000, true, 1_000));
    }
    assert!(hub.footprint() > 50_000, "{}", hub.footprint());
    hub.remove("gate");
    assert!(publisher.is_removed());
    drop((publisher, one, _two, _recorder));
    assert_eq!(hub.footprint(), 0);
}

/// A camera that has more than its part pays for it when all together have too much.
#[evenkeel::test]
async fn all_rings_have_a_limit_together() {
    let hub = Hub::new(Limits {
        all_bytes_max: 100_000,
        ..Limits::default()
    });
    let mut publishers = Vec::new();
    let mut stuck = Vec::new();
    for camera in ["a", "b", "c", "d"] {
        hub.add(camera).unwrap();
        stuck.push(hub.subscribe(camera, From::NewestKey).unwrap());
        publishers.push(hub.publish(camera, tracks().to_vec()).unwrap());
    }
    for step in 0..500 {
        // The first one sends ten times as much.
        for (index, publisher) in publishers.iter_mut().enumerate() {
            let bytes = if index == 0 { 2_000 } else { 200 };
            publisher.push(picture(step * 100, step % 10 == 0, bytes));
        }
        assert!(hub.footprint() < 100_000 + 4 * 3_000, "{}", hub.footprint());
    }
    let kept: Vec<usize> = hub.status().iter().map(|camera| camera.footprint).collect();
    assert!(kept[1..].iter().all(|&bytes| bytes > 1_000), "{kept:?}");
}

/// Who waits for the next key frame does not begin with a group that was cut.
#[test]
fn a_new_subscriber_begins_with_a_key_frame_even_if_a_group_is_cut() {
    let limits = Limits {
        gop_time_max: Duration::from_secs(1),
        ..Limits::default()
    };
    let mut ring = ring(limits);
    ring.push(picture(0, true, 10), at(0), None);
    let live = ring.subscribe(Grain::Samples(From::Live));
    for step in 1..30 {
        ring.push(picture(step * 100, false, 10), at(step * 100), None);
    }
    assert!(times(&mut ring, live).is_empty());
    ring.push(picture(3_000, true, 10), at(3_000), None);
    assert_eq!(times(&mut ring, live), ["parameters 1", "3000"]);
}
