//! SIGKILL while a log is looked after: in the middle of new segments, backups and trims. No more
//! is removed than was asked for, and what is left is whole.
//!
//! 25 kills, or as many as `TXLOG_KILLS` says, and more until each of these was hit. What was hit
//! is printed.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel::task::JoinSet;
use support::acknowledged::{Known, append, check};
use support::program::{Server, run_command, wait};
use support::{LIMIT, Random, rounds, run};
use txlog::log::record::HEAD_BYTES;
use txlog_client::Client;

/// How many connections append, and how many pending records each has: few, so that segments are
/// small.
const CLIENTS: u64 = 4;
const UNDER_WAY: usize = 2;

const SEGMENT_BYTES: u64 = 5_000;
const KEEP_BYTES: u64 = 400_000;

/// The most that a segment has: it may be nearly full when all that is pending is appended to it,
/// each record with less than this.
const SEGMENT_BYTES_MAX: u64 = SEGMENT_BYTES + CLIENTS * UNDER_WAY as u64 * 2_200;

/// What is the middle of which when the server, or a command, is killed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// The server, while a new segment is begun.
    Rotation,
    /// A backup, and then the server at any moment.
    Backup,
    /// The server, while a backup is made.
    BesideBackup,
    /// The server at any moment, when a backup has ended.
    Any,
    /// The server, while it removes the older half because it was asked to.
    Trim,
}

/// How often the middle was hit.
#[derive(Debug, Default)]
struct Hits {
    rotations: u64,
    backups: u64,
    beside_backups: u64,
    trims: u64,
    served_trims: u64,
}

impl Hits {
    fn has_all(&self) -> bool {
        let hits = [
            self.rotations,
            self.backups,
            self.beside_backups,
            self.trims,
            self.served_trims,
        ];
        hits.iter().all(|hits| *hits > 0)
    }
}

/// The segments of a directory, in order: their first records, and their lengths.
fn segments(directory: &Path) -> Vec<(u64, u64)> {
    let mut segments = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        // One may be removed meanwhile.
        if let (Some(first), Ok(metadata)) = (name.strip_suffix(".seg"), entry.metadata()) {
            segments.push((first.parse().unwrap(), metadata.len()));
        }
    }
    segments.sort_unstable();
    segments
}

fn oldest(directory: &Path) -> u64 {
    segments(directory).first().map_or(1, |(first, _)| *first)
}

/// Whether the newest segment has nothing but its head.
fn is_rotating(directory: &Path) -> bool {
    let segments = segments(directory);
    (segments.last()).is_some_and(|(_, bytes)| segments.len() > 1 && *bytes <= HEAD_BYTES as u64)
}

/// A log that began with record `before` begins with `now`. If that is another one, it was to be
/// trimmed so far, or the limit of bytes explains it: nearly as many are left.
fn expect_explained(directory: &Path, before: u64, now: u64, trimmed: u64) {
    assert!(now >= before, "{before} was removed, and {now} is there");
    if now == before || now <= trimmed {
        return;
    }
    let segments = segments(directory);
    let sealed = segments.len().saturating_sub(1);
    let left: u64 = segments[..sealed].iter().map(|(_, bytes)| bytes).sum();
    // Without the newest, of which it is not known how far it goes, and the last that was removed.
    let least = KEEP_BYTES - 2 * SEGMENT_BYTES_MAX;
    assert!(
        left >= least,
        "records {before} to {} were removed, and only {left} bytes are left",
        now - 1
    );
}

fn begin(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_txlog"))
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Waits until this is so, or the command has ended.
fn wait_until(child: &mut Child, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() && child.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < LIMIT, "the command does not begin");
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Kills this process only, if it has not ended yet. Returns whether it had not.
fn kill(child: &mut Child) -> bool {
    let is_alive = child.try_wait().unwrap().is_none();
    let _ = child.kill();
    wait(child);
    is_alive
}

/// The records that a directory has, from the first up to the one after the last; `None` if it is
/// no whole log or backup.
fn verified(directory: &str) -> Result<(u64, u64), String> {
    let (whole, said, errors) = run_command(&["verify", directory]);
    if !whole {
        return Err(errors);
    }
    let line = said
        .lines()
        .find_map(|line| line.strip_prefix("whole in all: "));
    let words = line.unwrap().split([' ', ';']);
    let numbers: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
    Ok(match (line.unwrap().starts_with("no records"), &*numbers) {
        (true, [next]) => (*next, *next),
        (false, [only]) => (*only, only + 1),
        (false, [first, last]) => (*first, last + 1),
        _ => panic!("{said}"),
    })
}

/// A log that is killed again and again.
struct Killed {
    log: PathBuf,
    saved: PathBuf,
    durable: Known,
    random: Random,
    hits: Hits,
    /// The first record after the last life, and the one after the last, at the beginning of this.
    first: u64,
    next: u64,
    /// The greatest number before which records were to be removed.
    trimmed: u64,
}

impl Killed {
    fn start(&self) -> Server {
        let (segment, keep) = (SEGMENT_BYTES.to_string(), KEEP_BYTES.to_string());
        Server::start(
            &self.log,
            &["--segment-bytes", &segment, "--keep-bytes", &keep],
        )
    }

    /// Checks what is there, appends, and is killed at this moment.
    fn live(&mut self, life: u64, moment: Moment) {
        let mut server = self.start();
        let address = server.address.to_string();
        run(async {
            self.check(&address).await;
            let mut clients = JoinSet::new();
            for client in 0..CLIENTS {
                let client = life * CLIENTS + client;
                let durable = Arc::clone(&self.durable);
                clients.spawn(append(address.clone(), client, UNDER_WAY, durable));
            }
            // Some of the lives are long enough for records to be removed.
            let pause = Duration::from_millis(self.random.below(200));
            evenkeel::time::sleep(pause).await;
            self.kill_at(moment, &mut server);
            while let Some(client) = clients.join_next().await {
                client.unwrap();
            }
        });
        let now = oldest(&self.log);
        expect_explained(&self.log, self.first, now, self.trimmed);
        self.first = now;
    }

    async fn check(&mut self, address: &str) {
        let client = Client::connect(address).await.unwrap();
        let (found, _) = client.read(0, Duration::ZERO).await.unwrap();
        let found = found.first().map_or(self.first, |record| record.sequence);
        expect_explained(&self.log, self.first, found, self.trimmed);
        let forget = |durable: &Known| {
            let mut durable = durable.lock().unwrap();
            durable.retain(|&sequence, _| sequence >= found);
        };
        forget(&self.durable);
        self.next = check(address.to_owned(), found, &self.durable).await;
        self.first = found;
    }

    fn kill_at(&mut self, moment: Moment, server: &mut Server) {
        let (log, saved) = (self.log.clone(), self.saved.clone());
        let names = ["backup", log.to_str().unwrap(), saved.to_str().unwrap()];
        let backup = [&names[..], &["--wait", "0"]].concat();
        // It has its first segment, and not yet its last.
        let has_begun = || !segments(&saved).is_empty();
        match moment {
            Moment::Rotation => {
                let began = Instant::now();
                while !is_rotating(&log) && began.elapsed() < Duration::from_secs(1) {
                    std::thread::sleep(Duration::from_micros(50));
                }
                server.kill();
                self.hits.rotations += u64::from(is_rotating(&log));
            }
            Moment::Backup => {
                let mut child = begin(&backup);
                wait_until(&mut child, has_begun);
                kill(&mut child);
                server.kill();
            }
            Moment::BesideBackup => {
                let mut child = begin(&backup);
                wait_until(&mut child, has_begun);
                let is_under_way = child.try_wait().unwrap().is_none();
                server.kill();
                wait(&mut child);
                self.hits.beside_backups += u64::from(is_under_way);
            }
            Moment::Trim => self.trim_and_kill(server),
            Moment::Any => {
                let (done, _, errors) = run_command(&backup);
                assert!(done, "{errors}");
                server.kill();
            }
        }
        self.check_saved(moment);
    }

    /// Has the server remove the older half while records are appended, and kills it in the middle.
    fn trim_and_kill(&mut self, server: &mut Server) {
        let all = segments(&self.log);
        let (was, before) = (oldest(&self.log), all[all.len() / 2].0);
        self.trimmed = before;
        let (address, number) = (server.address.to_string(), before.to_string());
        let mut child = begin(&["trim", "--server", &address, "--before", &number]);
        wait_until(&mut child, || oldest(&self.log) > was);
        server.kill();
        wait(&mut child);
        let now = oldest(&self.log);
        self.hits.served_trims += u64::from(was < now && now < before);
    }

    /// A backup is whole, and has what was there when it began, or is seen to be none.
    fn check_saved(&mut self, moment: Moment) {
        let is_saved = !matches!(moment, Moment::Rotation | Moment::Trim);
        if !is_saved || segments(&self.saved).is_empty() {
            return;
        }
        match verified(self.saved.to_str().unwrap()) {
            Ok((_, next)) => assert!(next >= self.next, "{next} of {}", self.next),
            Err(error) => {
                assert!(moment != Moment::Any, "{error}");
                assert!(error.contains("a copy that did not end"), "{error}");
                self.hits.backups += u64::from(moment == Moment::Backup);
            }
        }
        std::fs::remove_dir_all(&self.saved).unwrap();
    }

    /// Removes the older half, and kills that when it has begun, or lets it end.
    fn trim(&mut self, is_killed: bool) {
        let all = segments(&self.log);
        let log = self.log.to_str().unwrap();
        let before = all[all.len() / 2].0;
        let mut child = begin(&["trim", log, "--before", &before.to_string()]);
        let was_killed = if is_killed {
            wait_until(&mut child, || oldest(&self.log) > self.first);
            kill(&mut child)
        } else {
            assert!(wait(&mut child).success());
            false
        };
        let now = oldest(&self.log);
        assert!((self.first..=before).contains(&now), "{now} of {before}");
        assert!(was_killed || now == before, "{now} of {before}");
        self.hits.trims += u64::from(self.first < now && now < before);
        self.first = now;
        let (first, _) = verified(log).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(first, now);
    }
}

#[test]
fn kills_amid_upkeep_lose_nothing_and_remove_no_more_than_was_asked() {
    let directory = tempfile::tempdir().unwrap();
    let mut killed = Killed {
        log: directory.path().join("log"),
        saved: directory.path().join("saved"),
        durable: Known::default(),
        random: Random::new(rounds("TXLOG_KILL_SEED", 1)),
        hits: Hits::default(),
        first: 1,
        next: 1,
        trimmed: 0,
    };
    let kills = rounds("TXLOG_KILLS", 25);
    let moments = [
        Moment::Rotation,
        Moment::Backup,
        Moment::BesideBackup,
        Moment::Any,
        Moment::Trim,
    ];
    let mut life = 0;
    while life < kills || (!killed.hits.has_all() && life < kills + 100) {
        killed.live(life, moments[life as usize % moments.len()]);
        killed.trim(life / 5 % 2 == 0);
        life += 1;
    }
    let hits = &killed.hits;
    eprintln!(
        "{life} kills, of which {} hit a new segment, {} a backup, {} a server beside a backup; \
         {} hit a trim, {} a server that trims; {} records",
        hits.rotations,
        hits.backups,
        hits.beside_backups,
        hits.trims,
        hits.served_trims,
        killed.next - 1
    );
    assert!(hits.has_all() && killed.next > 1, "{hits:?}");
}
