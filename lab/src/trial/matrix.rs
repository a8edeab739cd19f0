//! A matrix of measurements: what goes on down, who serves across.

use serde_json::{Value, json};

use super::echoes::{self, Figure, P99, UNANSWERED, is_silent};
use super::figures::{Column, Figured, number};
use super::lab::Lab;
use super::samples::Samples;
use crate::error::Result;
use crate::load::EchoSummary;
use crate::peers::Peer;
use crate::report::{Bars, Cell, Plot, Table};

/// What goes on.
pub(crate) trait Row {
    fn name(&self) -> &str;

    /// What raw figures say of it.
    fn case(&self) -> Value {
        json!({ "beside": self.name() })
    }

    /// Why a peer has no part in this.
    fn lacks(&self, _peer: Peer) -> Option<&'static str> {
        None
    }
}

/// All measurements, each known by its row and whose it is.
pub(crate) struct Matrix<R, F> {
    /// What stands above the names of the rows.
    pub(crate) heading: &'static str,
    pub(crate) rows: Vec<R>,
    pub(crate) peers: Vec<Peer>,
    pub(crate) samples: Samples<At, F>,
}

/// A cell: its row, and whose it is.
pub(crate) type At = (usize, Peer);

/// Whose echoes of a cell are meant.
pub(crate) type Of<R, F> = for<'a> fn(&R, &'a F) -> Option<&'a EchoSummary>;

impl<R: Row, F> Matrix<R, F> {
    /// Measures every cell in every round, peers in turn.
    pub(crate) fn measure(
        lab: &Lab,
        (experiment, heading): (&str, &'static str),
        (rows, peers): (Vec<R>, Vec<Peer>),
        told: &[Column<F>],
        measure: impl Fn(&R, Peer) -> Result<F>,
    ) -> Self {
        let cells = (0..rows.len()).flat_map(|row| peers.iter().map(move |&peer| (row, peer)));
        let cells = cells.filter(|&(row, peer)| rows[row].lacks(peer).is_none());
        let name = |(row, peer): At| format!("{experiment}: {}, {}", rows[row].name(), peer.name());
        let measure = |(row, peer): At| measure(&rows[row], peer);
        let samples = Samples::measure(lab, lab.rounds(), cells, name, told, measure);
        Matrix {
            heading,
            rows,
            peers,
            samples,
        }
    }

    /// The rows by name.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&str, usize)> {
        self.rows.iter().map(Row::name).zip(0..)
    }

    pub(crate) fn echoes(&self, at: At, of: Of<R, F>) -> Vec<&EchoSummary> {
        let of = |found| of(&self.rows[at.0], found);
        self.samples.found(at).filter_map(of).collect()
    }

    /// Why a cell has nothing to show.
    pub(crate) fn why(&self, at: At) -> String {
        let lacks = self.rows[at.0].lacks(at.1);
        lacks.map_or_else(|| self.samples.why(at), str::to_owned)
    }

    /// The same, of whoever may not take part at all.
    fn absence(&self, at: At) -> String {
        match self.peers.contains(&at.1) {
            true => format!("{}: {}", at.1.name(), self.why(at)),
            false => format!("{} takes no part", at.1.name()),
        }
    }

    /// A figure of a cell, or why there is none.
    pub(crate) fn figure(&self, at: At, of: &Column<F>) -> Figured {
        let found: Vec<&F> = self.samples.found(at).collect();
        of.of(&found, || self.absence(at))
    }

    /// A latency of a cell, or why there is none. Of one that never answered it is the time waited
    /// so far: less than the figure would be, so what is missed by it is missed.
    pub(crate) fn reached(&self, at: At, of: Of<R, F>, figure: &Figure) -> Figured {
        figure.of(&self.echoes(at, of), || self.absence(at))
    }

    /// The same of who answers at all: for what others are held against.
    pub(crate) fn quoted(&self, at: At, of: Of<R, F>, figure: &Figure) -> Figured {
        match is_silent(&self.echoes(at, of)) {
            true => Err(format!("{} does not answer", at.1.name())),
            false => self.reached(at, of, figure),
        }
    }

    /// A table of the rows that are shown.
    pub(crate) fn table(
        &self,
        title: &str,
        shown: impl Fn(&R) -> bool,
        cell: impl Fn(At) -> Cell,
    ) -> Table {
        let rows = self.named().filter(|(_, row)| shown(&self.rows[*row]));
        let row = |(name, row): (&str, usize)| {
            let cells = self.peers.iter().map(|&peer| cell((row, peer)));
            [Cell::from(name)].into_iter().chain(cells).collect()
        };
        let peers = self.peers.iter().map(|peer| peer.name());
        let columns = [self.heading].into_iter().chain(peers);
        Table::new(title, columns, rows.map(row))
    }

    /// A table of two latencies in each cell.
    pub(crate) fn pairs(
        &self,
        title: &str,
        shown: impl Fn(&R) -> bool,
        of: Of<R, F>,
        figures: [Figure; 2],
    ) -> Table {
        let cell = |at| echoes::pair(&self.echoes(at, of), &figures, || self.why(at));
        self.table(title, shown, cell)
    }

    /// A table of what was never answered.
    pub(crate) fn unanswered(&self, title: &str, of: Of<R, F>) -> Table {
        self.table(
            title,
            |_| true,
            |at| {
                let share = UNANSWERED.of(&self.echoes(at, of), || self.why(at));
                number(share, UNANSWERED.unit)
            },
        )
    }

    /// The p99 of every cell as bars, in microseconds. Of who never answers there is no end, if
    /// there is a word for that.
    pub(crate) fn bars(&self, title: &str, endless: &str, of: Of<R, F>) -> Plot {
        let bar = |at: At| {
            let echoes = self.echoes(at, of);
            let is_endless = !endless.is_empty() && is_silent(&echoes);
            let p99 = is_endless.then_some(f64::INFINITY);
            Some((at.1.name().to_owned(), p99.or_else(|| P99.value(&echoes))?))
        };
        let group = |(name, row): (&str, usize)| {
            let bars = self.peers.iter().filter_map(|&peer| bar((row, peer)));
            (name.to_owned(), bars.collect())
        };
        Plot::Bars(Bars {
            title: title.to_owned(),
            unit: "us".to_owned(),
            log: true,
            endless: endless.to_owned(),
            groups: self.named().map(group).collect(),
        })
    }

    /// Every measurement.
    pub(crate) fn raw(&self, found: impl Fn(&F) -> Value) -> Value {
        let case = |(row, peer): At| {
            let mut case = self.rows[row].case();
            case["peer"] = peer.name().into();
            case
        };
        self.samples.raw(case, found)
    }
}
