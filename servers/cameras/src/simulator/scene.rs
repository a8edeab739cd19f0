//! A picture that moves: the camera's name, the time, and a square that wanders.

use std::time::{Duration, SystemTime};

use super::encoder::{Encoder, Frame};
use super::picture::Pictures;

/// Blocks of 16 pixels across and down.
const SIZE: [usize; 2] = [30, 17];
/// Pixels of each dot of a letter.
const DOT: usize = 6;
/// From one letter to the next, in dots.
const LETTER: usize = 6;
/// How many letters fit.
const LETTERS_MAX: usize = 12;
/// The edge of the square, and how far it goes in each picture, in pixels.
const SQUARE: usize = 48;
const STEP: usize = 4;
/// Key frames are so far apart.
const PICTURES_PER_KEY: u32 = 10;
const WHITE: [u8; 3] = [220, 128, 128];

/// What one camera sees.
#[derive(Debug)]
pub(super) struct Scene {
    encoder: Encoder,
    behind: Frame,
    square: [u8; 3],
    /// How many pictures there were.
    number: u32,
}

impl Scene {
    /// Of a camera of this name.
    pub(super) fn new(name: &str) -> Self {
        let name = name.chars().take(LETTERS_MAX).collect::<String>();
        // Each name has colours of its own.
        let mixed = name.bytes().fold(7_u32, |mixed, byte| {
            mixed.wrapping_mul(31).wrapping_add(u32::from(byte))
        });
        let mixed = mixed.wrapping_mul(0x9e37_79b1);
        let tint = |shift: u32| 96 + (mixed >> shift & 63) as u8;
        let (cb, cr) = (tint(26), tint(19));
        let mut behind = Frame::new(SIZE[0], SIZE[1], [60, cb, cr]);
        let [width, height] = SIZE.map(|blocks| blocks * 16);
        for y in (0..height).step_by(2) {
            let bright = (40 + y * 60 / height) as u8;
            behind.paint([0, y], [width, 2], [bright, cb, cr]);
        }
        write(&mut behind, &name.to_uppercase(), [16, 16]);
        Self {
            encoder: Encoder::new(SIZE[0], SIZE[1]),
            behind,
            square: [180, 255 - cb, 255 - cr],
            number: 0,
        }
    }

    /// The parameter sets, which are those of all scenes.
    pub(super) fn sets() -> Pictures {
        Pictures::new(SIZE[0] as u32, SIZE[1] as u32)
    }

    /// The NAL units of the next picture, which is taken now.
    pub(super) fn picture(&mut self, now: SystemTime) -> Vec<Vec<u8>> {
        let frame = self.drawn(now);
        let number = self.number % PICTURES_PER_KEY;
        self.number = self.number.wrapping_add(1);
        let unit = self.encoder.encode(number, &frame);
        match number {
            0 => vec![
                self.encoder.sets.sps.clone(),
                self.encoder.sets.pps.clone(),
                unit,
            ],
            _ => vec![unit],
        }
    }

    fn drawn(&self, now: SystemTime) -> Frame {
        let [width, height] = SIZE.map(|blocks| blocks * 16);
        let mut frame = self.behind.clone();
        let way = self.number as usize * STEP;
        let at = [
            there_and_back(way, width - SQUARE),
            80 + there_and_back((way / 2) & !1, height - SQUARE - 144),
        ];
        frame.paint(at, [SQUARE, SQUARE], self.square);
        write(&mut frame, &clock(now), [16, height - 56]);
        frame
    }
}

/// From 0 to `most`, back, and so on.
fn there_and_back(way: usize, most: usize) -> usize {
    let place = way % (2 * most);
    place.min(2 * most - place)
}

/// The time of day, in UTC, with tenths of a second.
fn clock(now: SystemTime) -> String {
    let since = now.duration_since(SystemTime::UNIX_EPOCH);
    let since = since.unwrap_or(Duration::ZERO);
    let (seconds, tenth) = (since.as_secs() % 86_400, since.subsec_millis() / 100);
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{tenth}", seconds % 60)
}

/// Writes a line of letters. What has no letter is left out.
fn write(frame: &mut Frame, text: &str, [x, y]: [usize; 2]) {
    for (place, letter) in text.chars().enumerate() {
        let left = x + place * LETTER * DOT;
        for (row, dots) in letter_rows(letter).into_iter().enumerate() {
            for column in (0..5).filter(|column| dots >> (4 - column) & 1 == 1) {
                let at = [left + column * DOT, y + row * DOT];
                frame.paint(at, [DOT, DOT], WHITE);
            }
        }
    }
}

/// Seven rows of five dots, of which the last bit is the right one.
#[rustfmt::skip]
fn letter_rows(letter: char) -> [u8; 7] {
    match letter {
        'A' => [0x0e, 0x11, 0x11, 0x1f, 0x11, 0x11, 0x11],
        'B' => [0x1e, 0x11, 0x11, 0x1e, 0x11, 0x11, 0x1e],
        'C' => [0x0e, 0x11, 0x10, 0x10, 0x10, 0x11, 0x0e],
        'D' => [0x1e, 0x11, 0x11, 0x11, 0x11, 0x11, 0x1e],
        'E' => [0x1f, 0x10, 0x10, 0x1e, 0x10, 0x10, 0x1f],
        'F' => [0x1f, 0x10, 0x10, 0x1e, 0x10, 0x10, 0x10],
        'G' => [0x0e, 0x11, 0x10, 0x17, 0x11, 0x11, 0x0f],
        'H' => [0x11, 0x11, 0x11, 0x1f, 0x11, 0x11, 0x11],
        'I' => [0x0e, 0x04, 0x04, 0x04, 0x04, 0x04, 0x0e],
        'J' => [0x07, 0x02, 0x02, 0x02, 0x02, 0x12, 0x0c],
        'K' => [0x11, 0x12, 0x14, 0x18, 0x14, 0x12, 0x11],
        'L' => [0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x1f],
        'M' => [0x11, 0x1b, 0x15, 0x15, 0x11, 0x11, 0x11],
        'N' => [0x11, 0x19, 0x15, 0x13, 0x11, 0x11, 0x11],
        'O' => [0x0e, 0x11, 0x11, 0x11, 0x11, 0x11, 0x0e],
        'P' => [0x1e, 0x11, 0x11, 0x1e, 0x10, 0x10, 0x10],
        'Q' => [0x0e, 0x11, 0x11, 0x11, 0x15, 0x12, 0x0d],
        'R' => [0x1e, 0x11, 0x11, 0x1e, 0x14, 0x12, 0x11],
        'S' => [0x0f, 0x10, 0x10, 0x0e, 0x01, 0x01, 0x1e],
        'T' => [0x1f, 0x04, 0x04, 0x04, 0x04, 0x04, 0x04],
        'U' => [0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x0e],
        'V' => [0x11, 0x11, 0x11, 0x11, 0x11, 0x0a, 0x04],
        'W' => [0x11, 0x11, 0x11, 0x15, 0x15, 0x1b, 0x11],
        'X' => [0x11, 0x11, 0x0a, 0x04, 0x0a, 0x11, 0x11],
        'Y' => [0x11, 0x11, 0x0a, 0x04, 0x04, 0x04, 0x04],
        'Z' => [0x1f, 0x01, 0x02, 0x04, 0x08, 0x10, 0x1f],
        '0' => [0x0e, 0x11, 0x13, 0x15, 0x19, 0x11, 0x0e],
        '1' => [0x04, 0x0c, 0x04, 0x04, 0x04, 0x04, 0x0e],
        '2' => [0x0e, 0x11, 0x01, 0x06, 0x08, 0x10, 0x1f],
        '3' => [0x1f, 0x02, 0x04, 0x02, 0x01, 0x11, 0x0e],
        '4' => [0x02, 0x06, 0x0a, 0x12, 0x1f, 0x02, 0x02],
        '5' => [0x1f, 0x10, 0x1e, 0x01, 0x01, 0x11, 0x0e],
        '6' => [0x06, 0x08, 0x10, 0x1e, 0x11, 0x11, 0x0e],
        '7' => [0x1f, 0x01, 0x02, 0x04, 0x08, 0x08, 0x08],
        '8' => [0x0e, 0x11, 0x11, 0x0e, 0x11, 0x11, 0x0e],
        '9' => [0x0e, 0x11, 0x11, 0x0f, 0x01, 0x02, 0x0c],
        ':' => [0x00, 0x0c, 0x0c, 0x00, 0x0c, 0x0c, 0x00],
        '.' => [0x00, 0x00, 0x00, 0x00, 0x00, 0x0c, 0x0c],
        '-' => [0x00, 0x00, 0x00, 0x1f, 0x00, 0x00, 0x00],
        _ => [0; 7],
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    /// Another decoder sees every pixel as it was drawn.
    #[test]
    fn what_is_decoded_is_what_was_drawn() {
        let mut scene = Scene::new("cam7");
        let (mut stream, mut drawn) = (Vec::new(), Vec::new());
        for picture in 0..25 {
            let now = SystemTime::UNIX_EPOCH + Duration::from_millis(86_399_000 + picture * 100);
            for plane in &scene.drawn(now).planes {
                drawn.extend_from_slice(&plane.samples);
            }
            for unit in scene.picture(now) {
                stream.extend([0, 0, 0, 1]);
                stream.extend(unit);
            }
        }
        // An eighth of what it takes to write all of them as they are.
        assert!(stream.len() < drawn.len() / 8, "{}", stream.len());
        let started = Command::new("ffmpeg")
            .args(["-v", "error", "-f", "h264", "-i", "-"])
            .args([
                "-f",
                "rawvideo",
                "-pix_fmt",
                "yuv420p",
                "-fps_mode",
                "passthrough",
                "-",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = match started {
            Ok(child) => child,
            Err(error) => {
                eprintln!("nothing is decoded, as ffmpeg cannot be started: {error}");
                return;
            }
        };
        let mut input = child.stdin.take().unwrap();
        let feeding = std::thread::spawn(move || input.write_all(&stream));
        let output = child.wait_with_output().unwrap();
        feeding.join().unwrap().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.is_empty(), "{said}");
        assert_eq!(output.stdout.len(), drawn.len());
        let differs = output.stdout.iter().zip(&drawn).position(|(a, b)| a != b);
        assert_eq!(differs, None);
    }

    #[test]
    fn the_clock_says_the_time_of_day_and_the_square_stays_inside() {
        let at = |ms| clock(SystemTime::UNIX_EPOCH + Duration::from_millis(ms));
        assert_eq!(at(0), "00:00:00.0");
        assert_eq!(at(86_400_000 + 3_723_456), "01:02:03.4");
        let ways: Vec<_> = (0..9).map(|way| there_and_back(way, 3)).collect();
        assert_eq!(ways, [0, 1, 2, 3, 2, 1, 0, 1, 2]);
    }
}
