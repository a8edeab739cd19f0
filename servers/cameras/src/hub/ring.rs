//! The ring of one camera: its groups of pictures, and the cursors of its subscribers. It takes the
//! time as an argument, and knows nothing of tasks.
//!
//! Groups have numbers without holes. A cursor is a group's number and a sample's place in it. A
//! number below the oldest group that is kept means that its subscriber lags.

use std::collections::VecDeque;
use std::sync::Arc;

use super::event::{Event, From, Grain, Limits};
use crate::media::{Gop, Moment, Sample, Track};

/// What a push did to the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pushed {
    /// A group was completed.
    pub(super) closed: bool,
    /// Samples that were dropped for want of memory, this one included.
    pub(super) dropped: u64,
}

/// The place of a subscriber.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    grain: Grain,
    gop: u64,
    sample: usize,
    /// Groups that decoding cannot begin with are left out, up to the first one with which it can.
    wants_key: bool,
    /// The generation it was told of.
    generation: u64,
    /// The generation whose end it was told of.
    ended: u64,
}

/// The group that grows.
#[derive(Clone, Debug)]
struct Open {
    start: Moment,
    first_dts: i64,
    samples: Vec<Sample>,
    footprint: usize,
    begins_with_key: bool,
    generation: u64,
}

impl Open {
    fn gop(self, number: u64, tracks: &Arc<[Track]>, end: Moment) -> Gop {
        Gop {
            number,
            tracks: Arc::clone(tracks),
            generation: self.generation,
            start: self.start,
            end,
            samples: self.samples,
            begins_with_key: self.begins_with_key,
            footprint: self.footprint,
        }
    }
}

/// The shortest group, in parts of a second of the leading track: pictures that are all key frames,
/// and sound, come in groups that are worth a write.
const GOPS_PER_SECOND_MAX: i64 = 2;

/// Why samples are passed over until the next key frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Skips {
    /// Nothing came before them on which they could build: the session has begun between key
    /// frames, as with most cameras. Nothing is lost.
    Begins,
    /// The group that they depend on was dropped.
    Dropped,
}

/// The ring.
#[derive(Debug)]
pub(super) struct Ring {
    limits: Limits,
    /// The session's tracks; `None` between sessions.
    tracks: Option<Arc<[Track]>>,
    /// The track whose key frames begin groups.
    leading: u8,
    /// The number of the last generation that began; 0 before the first.
    generation: u64,
    closed: VecDeque<Arc<Gop>>,
    /// The number of the group that is open, or will be next.
    next: u64,
    open: Option<Open>,
    /// What comes is of no use until the next key frame.
    skips: Option<Skips>,
    footprint: usize,
    cursors: Vec<Option<Cursor>>,
    last_seen: Option<Moment>,
}

impl Ring {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            tracks: None,
            leading: 0,
            generation: 0,
            closed: VecDeque::new(),
            next: 0,
            open: None,
            skips: None,
            footprint: 0,
            cursors: Vec::new(),
            last_seen: None,
        }
    }

    /// Begins a session, or goes on with other tracks or parameters. Whether a group was completed.
    pub(super) fn begin(&mut self, tracks: Arc<[Track]>, at: Moment) -> bool {
        let closed = self.close(at);
        let video = tracks.iter().find(|track| track.codec.is_video());
        self.leading = video.or(tracks.first()).map_or(0, |track| track.id);
        self.tracks = Some(tracks);
        self.generation += 1;
        // What follows a change is of no use without its key frame.
        let waits = video_leads(self.tracks.as_deref(), self.leading);
        self.skips = waits.then_some(Skips::Begins);
        closed
    }

    /// Ends the session. Whether a group was completed.
    pub(super) fn end(&mut self, at: Moment) -> bool {
        let closed = self.close(at);
        self.tracks = None;
        closed
    }

    /// Takes a sample in. `share` is how many bytes this ring may have while all together have too
    /// many; `None` while they have not.
    pub(super) fn push(&mut self, sample: Sample, at: Moment, share: Option<usize>) -> Pushed {
        let mut pushed = Pushed::default();
        let leads = sample.track == self.leading;
        let begins = leads && sample.is_key && self.is_long_enough(&sample);
        if let Some(skips) = self.skips
            && !(leads && sample.is_key)
        {
            pushed.dropped = u64::from(skips == Skips::Dropped);
            return pushed;
        }
        self.skips = None;
        if begins || self.is_full(&sample, at) {
            pushed.closed = self.close(at);
        }
        let cost = sample.data.footprint();
        let generation = self.generation;
        let open = self.open.get_or_insert_with(|| Open {
            start: at,
            first_dts: sample.dts,
            samples: Vec::new(),
            footprint: 0,
            begins_with_key: leads && sample.is_key,
            generation,
        });
        if leads
            && open
                .samples
                .iter()
                .all(|before| before.track != sample.track)
        {
            // Sound came first; the length of a group is that of the leading track.
            open.first_dts = sample.dts;
        }
        open.samples.push(sample);
        open.footprint += cost;
        self.footprint += cost;
        self.last_seen = Some(at);
        pushed.dropped += self.make_room(at, share);
        pushed
    }

    /// Bytes in it.
    pub(super) fn footprint(&self) -> usize {
        self.footprint
    }

    /// The session's tracks and its generation.
    pub(super) fn session(&self) -> Option<(&Arc<[Track]>, u64)> {
        self.tracks.as_ref().map(|tracks| (tracks, self.generation))
    }

    /// When the last sample came.
    pub(super) fn last_seen(&self) -> Option<Moment> {
        self.last_seen
    }

    /// Takes in a subscriber. Returns its key.
    pub(super) fn subscribe(&mut self, grain: Grain) -> usize {
        let newest = match grain {
            // What is left of a session that has ended is not news.
            Grain::Samples(From::NewestKey) if self.tracks.is_some() => self.newest_key(),
            Grain::Samples(From::Live) if self.open.is_some() => self.next + 1,
            Grain::Samples(_) | Grain::Gops => self.next,
        };
        let ended = if self.tracks.is_none() {
            self.generation
        } else {
            0
        };
        let cursor = Cursor {
            grain,
            gop: newest,
            sample: 0,
            wants_key: grain != Grain::Gops,
            generation: 0,
            ended,
        };
        if let Some(free) = self.cursors.iter().position(Option::is_none) {
            self.cursors[free] = Some(cursor);
            return free;
        }
        self.cursors.push(Some(cursor));
        self.cursors.len() - 1
    }

    /// Forgets a subscriber, and what only it has not taken.
    pub(super) fn unsubscribe(&mut self, key: usize) {
        self.cursors[key] = None;
        while self.cursors.last().is_some_and(Option::is_none) {
            self.cursors.pop();
        }
        self.forget_taken();
    }

    /// How many subscribers take samples.
    pub(super) fn viewers(&self) -> usize {
        let views = |cursor: &&Cursor| matches!(cursor.grain, Grain::Samples(_));
        self.cursors.iter().flatten().filter(views).count()
    }

    /// What comes next for this subscriber; `None` while it has everything.
    pub(super) fn next(&mut self, key: usize) -> Option<Event> {
        let mut cursor = self.cursors[key]?;
        let gop = cursor.gop;
        let event = self.advance(&mut cursor);
        self.cursors[key] = Some(cursor);
        if cursor.gop > gop {
            self.forget_taken();
        }
        event
    }

    /// The same for a subscriber of groups, and lastly the group that is open, as far as it has
    /// come by now. It grows on, and is complete for others later.
    pub(super) fn rest(&mut self, key: usize, at: Moment) -> Option<Event> {
        if let Some(event) = self.next(key) {
            return Some(event);
        }
        let (open, tracks) = (self.open.as_ref()?, self.tracks.as_ref()?);
        let cursor = self.cursors[key].as_mut()?;
        if cursor.gop != self.next {
            return None;
        }
        cursor.gop += 1;
        let so_far = open.clone().gop(self.next, tracks, at);
        Some(Event::Gop(Arc::new(so_far)))
    }

    fn advance(&self, cursor: &mut Cursor) -> Option<Event> {
        let oldest = self.closed.front().map_or(self.next, |gop| gop.number);
        if cursor.gop < oldest {
            let newest = match cursor.grain {
                Grain::Samples(_) => self.newest_key(),
                Grain::Gops => oldest,
            };
            let gops = newest - cursor.gop;
            cursor.gop = newest;
            cursor.sample = 0;
            cursor.wants_key = cursor.grain != Grain::Gops;
            return Some(Event::Lagged { gops });
        }
        while let Some(gop) = self.closed_at(cursor.gop) {
            if cursor.grain == Grain::Gops {
                cursor.gop += 1;
                return Some(Event::Gop(Arc::clone(gop)));
            }
            if cursor.wants_key && !gop.begins_with_key {
                cursor.gop += 1;
                continue;
            }
            cursor.wants_key = false;
            if cursor.generation != gop.generation {
                cursor.generation = gop.generation;
                return Some(parameters(&gop.tracks, gop.generation));
            }
            if let Some(sample) = gop.samples.get(cursor.sample) {
                cursor.sample += 1;
                return Some(Event::Sample(sample.clone()));
            }
            cursor.gop += 1;
            cursor.sample = 0;
        }
        self.of_open(cursor).or_else(|| {
            let ended = self.tracks.is_none() && cursor.ended != self.generation;
            ended.then(|| {
                cursor.ended = self.generation;
                Event::Ended
            })
        })
    }

    fn of_open(&self, cursor: &mut Cursor) -> Option<Event> {
        let open = self.open.as_ref()?;
        if cursor.gop != self.next || cursor.grain == Grain::Gops {
            return None;
        }
        if cursor.wants_key && !open.begins_with_key {
            return None;
        }
        cursor.wants_key = false;
        if cursor.generation != open.generation {
            cursor.generation = open.generation;
            return Some(parameters(self.tracks.as_ref()?, open.generation));
        }
        let sample = open.samples.get(cursor.sample)?;
        cursor.sample += 1;
        Some(Event::Sample(sample.clone()))
    }

    fn closed_at(&self, number: u64) -> Option<&Arc<Gop>> {
        let first = self.closed.front()?.number;
        let index = usize::try_from(number.checked_sub(first)?).ok()?;
        self.closed.get(index)
    }

    /// The newest group that decoding can begin with; the next one, if there is none.
    fn newest_key(&self) -> u64 {
        if self.open.as_ref().is_some_and(|open| open.begins_with_key) {
            return self.next;
        }
        let with_key = self.closed.iter().rev().find(|gop| gop.begins_with_key);
        match (with_key, &self.open) {
            (Some(gop), _) => gop.number,
            (None, Some(_)) => self.next + 1,
            (None, None) => self.next,
        }
    }

    fn is_long_enough(&self, key: &Sample) -> bool {
        let (Some(open), Some(tracks)) = (&self.open, &self.tracks) else {
            return true;
        };
        let rate = tracks.get(usize::from(self.leading));
        let rate = rate.map_or(0, |track| i64::from(track.clock_rate));
        !open.begins_with_key || key.dts - open.first_dts >= rate / GOPS_PER_SECOND_MAX
    }

    /// Whether the open group has no room for this sample.
    fn is_full(&self, sample: &Sample, at: Moment) -> bool {
        self.open.as_ref().is_some_and(|open| {
            let lasted = at.monotonic.saturating_sub(open.start.monotonic);
            lasted >= self.limits.gop_time_max
                || open.footprint + sample.data.footprint() > self.limits.camera_bytes_max / 2
        })
    }

    fn close(&mut self, at: Moment) -> bool {
        let (Some(open), Some(tracks)) = (self.open.take(), &self.tracks) else {
            return false;
        };
        self.closed
            .push_back(Arc::new(open.gop(self.next, tracks, at)));
        self.next += 1;
        self.forget_taken();
        true
    }

    /// Drops what all subscribers have.
    fn forget_taken(&mut self) {
        let needed = self.cursors.iter().flatten().map(|cursor| cursor.gop).min();
        let needed = needed.unwrap_or(self.next);
        while self.closed.front().is_some_and(|gop| gop.number < needed) {
            self.drop_oldest();
        }
    }

    /// Drops the oldest groups until the rest is within the limits. Returns how many samples of
    /// the open one had to go.
    fn make_room(&mut self, at: Moment, share: Option<usize>) -> u64 {
        let bytes_max = share.map_or(self.limits.camera_bytes_max, |share| {
            share.min(self.limits.camera_bytes_max)
        });
        let oldest_at = at.monotonic.saturating_sub(self.limits.lag_max);
        while let Some(gop) = self.closed.front()
            && (self.footprint > bytes_max || gop.end.monotonic < oldest_at)
        {
            self.drop_oldest();
        }
        if self.footprint <= bytes_max {
            return 0;
        }
        let Some(open) = self.open.take() else {
            return 0;
        };
        self.footprint -= open.footprint;
        // Its number is gone with it, so that whoever was in it hears of that.
        self.next += 1;
        self.skips = Some(Skips::Dropped);
        open.samples.len() as u64
    }

    fn drop_oldest(&mut self) {
        if let Some(gop) = self.closed.pop_front() {
            self.footprint -= gop.footprint;
        }
    }
}

fn parameters(tracks: &Arc<[Track]>, generation: u64) -> Event {
    Event::Parameters {
        tracks: Arc::clone(tracks),
        generation,
    }
}

fn video_leads(tracks: Option<&[Track]>, leading: u8) -> bool {
    let track = tracks.and_then(|tracks| tracks.get(usize::from(leading)));
    track.is_some_and(|track| track.codec.is_video())
}
