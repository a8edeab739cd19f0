//! One thread that sends to all who play: a write for each packet, pictures in their time.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use super::Shared;
use super::packets;
use super::scene::Scene;
use super::stamp::{DIGITS, Stamp};

/// How long the thread sleeps between two looks. Pictures are late by that much at most.
const NAP: Duration = Duration::from_millis(2);

/// More than this is not kept for a connection that does not take it.
const BEHIND_MAX: usize = 4 << 20;

struct Camera {
    stream: TcpStream,
    /// What it sees; without it, it sends the stream of all.
    scene: Option<Scene>,
    next: Instant,
    picture: usize,
    sequence: u16,
    timestamp: u32,
    /// What the connection has not taken.
    behind: Vec<u8>,
    is_gone: bool,
}

pub(super) fn run(shared: &Shared) {
    let pause = Duration::from_secs(1) / shared.settings.rate.max(1);
    let stamped = shared.settings.stream.stamped();
    let mut cameras: Vec<Camera> = Vec::new();
    let mut count = 0_u32;
    while !shared.ends() {
        let fresh =
            std::mem::take(&mut *shared.fresh.lock().unwrap_or_else(PoisonError::into_inner));
        for (stream, name) in fresh {
            if stream.set_nonblocking(true).is_ok() {
                count = count.wrapping_add(1);
                cameras.push(Camera {
                    stream,
                    scene: shared.moves.then(|| Scene::new(&name)),
                    // Not all at the same moment.
                    next: Instant::now() + pause * (count % 16) / 16,
                    picture: 0,
                    // Both wrap soon.
                    sequence: u16::MAX - 100,
                    timestamp: u32::MAX - 90_000,
                    behind: Vec::new(),
                    is_gone: false,
                });
            }
        }
        let now = Instant::now();
        for camera in &mut cameras {
            camera.catch_up(shared);
            if camera.next <= now {
                camera.next += pause;
                camera.send_picture(shared, &stamped);
            }
        }
        cameras.retain(|camera| !camera.is_gone);
        std::thread::sleep(NAP);
    }
}

impl Camera {
    fn send_picture(&mut self, shared: &Shared, stamped: &[Option<(usize, usize)>]) {
        let pictures = &shared.settings.stream.pictures;
        let seen;
        let (payloads, stamped) = match &mut self.scene {
            Some(scene) => {
                seen = packets::payloads(&scene.picture(SystemTime::now()));
                (&seen, None)
            }
            None => {
                let place = self.picture % pictures.len();
                (&pictures[place], stamped[place])
            }
        };
        let stamp = Stamp::now(self.picture as u32);
        self.picture += 1;
        self.timestamp = self
            .timestamp
            .wrapping_add(90_000 / shared.settings.rate.max(1));
        if self.behind.len() > BEHIND_MAX {
            shared.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut packet = Vec::with_capacity(1_460);
        for (index, payload) in payloads.iter().enumerate() {
            let marker = if index + 1 == payloads.len() { 0x80 } else { 0 };
            packet.clear();
            packet.extend([b'$', 0]);
            packet.extend((payload.len() as u16 + 12).to_be_bytes());
            packet.extend([0x80, 96 | marker]);
            packet.extend(self.sequence.to_be_bytes());
            packet.extend(self.timestamp.to_be_bytes());
            packet.extend([0, 0, 0xab, 0xcd]);
            packet.extend(payload);
            if let Some((_, at)) = stamped.filter(|(payload, _)| *payload == index) {
                let begins = packet.len() - payload.len() + at;
                packet[begins..begins + DIGITS].copy_from_slice(stamp.digits().as_bytes());
            }
            self.sequence = self.sequence.wrapping_add(1);
            self.behind.extend_from_slice(&packet);
            self.catch_up(shared);
        }
    }

    /// Writes what there is; usually that is one packet.
    fn catch_up(&mut self, shared: &Shared) {
        while !self.behind.is_empty() {
            match self.stream.write(&self.behind) {
                Ok(written) => {
                    shared.sent.fetch_add(written as u64, Ordering::Relaxed);
                    self.behind.drain(..written);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.is_gone = true;
                    return;
                }
            }
        }
    }
}
