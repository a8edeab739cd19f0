//! Who serves, and how cameras send.

use std::time::Duration;

use crate::frames::FRAME_LEN;
use crate::peers::{Peer, ServerSpec};
use crate::serve::Delivery;

/// Cameras, and megabits per second of all of them.
pub(super) const CAMERAS: u32 = 350;
pub(super) const MBIT: u32 = 500;
/// What little comes in where nothing is to hold anything up.
pub(super) const BREEZE_MBIT: u32 = 20;

/// How long evenkeel may wait for more: as long as users of OTP chose, and where it finds out by
/// itself at most as long, as otherwise it could not save as much.
pub(super) const ADAPTIVE_MS: u32 = 100;
pub(super) const ADAPTIVE: Delivery = Delivery::Adaptive { ms: ADAPTIVE_MS };

/// A server and how it is told to deliver.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) peer: Peer,
    /// How it delivers; and the class of API calls, where there are classes.
    flags: &'static str,
}

/// How cameras send.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Storm {
    pub(super) name: &'static str,
    pub(super) cameras: u32,
    /// Frames at once.
    pub(super) burst: u32,
    pub(super) over_veth: bool,
    /// What is computed for each delivery is found for this storm, and not for the even one.
    pub(super) own_work: bool,
}

const fn storm(name: &'static str, cameras: u32, burst: u32) -> Storm {
    Storm {
        name,
        cameras,
        burst,
        over_veth: false,
        own_work: false,
    }
}

pub(super) const EVEN: Storm = storm("350 cameras, evenly", CAMERAS, 1);
/// As much in all: what grows is the number of connections.
pub(super) const MANY: Storm = storm("1400 cameras, evenly", 4 * CAMERAS, 1);
/// A tenth of a second of each camera at once.
pub(super) const BURSTS: Storm = storm("350 cameras, in bursts of 12", CAMERAS, 12);
/// The same with so much work for each burst that a server is as busy as in the even storm; with
/// that one's work, it is at a third.
pub(super) const BUSY_BURSTS: Storm = Storm {
    own_work: true,
    ..storm("350 cameras, in bursts of 12, more work", CAMERAS, 12)
};
pub(super) const ETHERNET: Storm = Storm {
    over_veth: true,
    ..storm("350 cameras, evenly, MTU 1500", CAMERAS, 1)
};

const fn own(name: &'static str, flags: &'static str) -> Row {
    row(name, Peer::Evenkeel, flags)
}

const fn row(name: &'static str, peer: Peer, flags: &'static str) -> Row {
    Row { name, peer, flags }
}

pub(super) const IMMEDIATE: Row = own("evenkeel, immediate", "--delivery immediate");
pub(super) const ADAPTIVE_ROW: Row = own("evenkeel, adaptive 100 ms", "--delivery adaptive:100");
/// As before, and an API call is let go first: of what it wants it gets 99 parts in 100.
const API_FIRST: Row = own(
    "evenkeel, adaptive 100 ms, API first",
    "--delivery adaptive:100 --api-class urgent --shares urgent=990,normal=10",
);
const COALESCE_API_FIRST: Row = own(
    "evenkeel, coalesce 64 KiB or 100 ms, API first",
    "--delivery coalesce:65536:100 --api-class urgent --shares urgent=990,normal=10",
);
#[rustfmt::skip]
const COALESCE: Row = own("evenkeel, coalesce 64 KiB or 100 ms", "--delivery coalesce:65536:100");
/// What the bytes cost by themselves: a reader is woken so seldom that deliveries hardly count.
#[rustfmt::skip]
pub(super) const BYTES_ALONE: Row =
    own("evenkeel, coalesce 64 KiB or 5 s", "--delivery coalesce:65536:5000");
pub(super) const TOKIO: Row = row("tokio", Peer::Tokio, "");
pub(super) const OTP_DEFERRED: Row =
    row("OTP, once after 100 ms", Peer::Erlang, "--mode defer:100");

/// Those of which something is to be reached: all that wait for more.
pub(super) const JUDGED: [Row; 4] = [COALESCE, COALESCE_API_FIRST, ADAPTIVE_ROW, API_FIRST];

const ALL: [Row; 11] = [
    IMMEDIATE,
    COALESCE,
    ADAPTIVE_ROW,
    API_FIRST,
    COALESCE_API_FIRST,
    BYTES_ALONE,
    TOKIO,
    row("go", Peer::Go, ""),
    row("OTP, {active, once}", Peer::Erlang, "--mode once"),
    row("OTP, {active, 100}", Peer::Erlang, "--mode 100"),
    OTP_DEFERRED,
];

/// In brief those that verdicts are about, with all that evenkeel has, and whom they are held
/// against.
const BRIEF: [Row; 4] = [API_FIRST, COALESCE_API_FIRST, TOKIO, OTP_DEFERRED];

/// Who takes part.
pub(super) fn rows(peers: &[Peer], brief: bool) -> Vec<Row> {
    let present = ALL.into_iter().filter(|row| peers.contains(&row.peer));
    let rows = present.filter(|row| !brief || BRIEF.contains(row));
    rows.collect()
}

/// The names of those that a brief run leaves out.
pub(super) fn left_out(peers: &[Peer]) -> String {
    let present = ALL.iter().filter(|row| peers.contains(&row.peer));
    let left_out = present.filter(|row| !BRIEF.contains(row));
    let names: Vec<String> = left_out.map(|row| format!("`{}`", row.name)).collect();
    names.join(", ")
}

impl Storm {
    /// The fewest deliveries a second that a delay leaves: each brings what comes within it, and
    /// what began it.
    pub(super) fn fewest_deliveries(&self, delay: Duration) -> f64 {
        let of_each = self.bursts_per_s() / f64::from(self.cameras);
        self.bursts_per_s() / ((of_each * delay.as_secs_f64()).floor() + 1.0)
    }

    /// Bursts that come in, each of which is a delivery where none is held back and the server is
    /// nearly busy: before it comes to a burst, all of it is there.
    pub(super) fn bursts_per_s(&self) -> f64 {
        f64::from(MBIT) * 1e6 / 8.0 / FRAME_LEN as f64 / f64::from(self.burst)
    }
}

impl Row {
    /// Whether deliveries wait for so many bytes.
    pub(super) fn is_coalesced(&self) -> bool {
        self.flags.contains("coalesce")
    }

    /// The server, with what every row has in common.
    pub(super) fn spec(&self, record: &std::path::Path, work_us: u64) -> ServerSpec {
        let services = ["camera", "watch", "echo", "api"];
        let spec = ServerSpec::of(&services).without_spin(self.peer);
        let spec = spec.with(format_args!("--work-us {work_us}"));
        let spec = spec.set("--record", record);
        match self.peer {
            Peer::Evenkeel => spec.own(self.flags),
            _ => spec.with(self.flags),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_leaves_as_few_deliveries_as_it_gathers_bursts() {
        let delay = Duration::from_millis(100);
        assert_eq!(EVEN.fewest_deliveries(delay).round(), 3_293.0);
        assert_eq!(MANY.fewest_deliveries(delay).round(), 10_702.0);
        assert_eq!(BURSTS.fewest_deliveries(delay).round(), 1_784.0);
    }

    #[test]
    fn only_evenkeel_is_told_how_to_deliver() {
        for row in ALL {
            let spec = row.spec("recordings".as_ref(), 7);
            let told = spec.own_flags.iter().any(|flag| flag == "--delivery");
            assert_eq!(told, row.peer == Peer::Evenkeel, "{}", row.name);
            let mode = spec.flags.iter().any(|flag| flag == "--mode");
            assert_eq!(mode, row.peer == Peer::Erlang, "{}", row.name);
        }
        assert_eq!(rows(&[Peer::Tokio], true), [TOKIO]);
        let all = [Peer::Evenkeel, Peer::Tokio, Peer::Go, Peer::Erlang];
        assert_eq!(rows(&all, false).len(), 11);
        assert_eq!(rows(&all, true), BRIEF);
        assert_eq!(left_out(&[Peer::Go, Peer::Tokio]), "`go`");
    }
}
