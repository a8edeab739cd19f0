//! A matrix of measurements: what goes on down, who serves across.

use serde_json::{Value, json};

use super::echoes::{self, Figure, P99, UNANSWERED, is_silent};
use super::figures::{Column, number};
use super::lab::Lab;
use super::samples::Samples;
use crate::error::Result;
use crate::load::EchoSummary;
use crate::peers::Peer;
use crate::report::{Cell, Plot, Table};

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
    pub(crate) samples: Samples<(usize, Peer), F>,
}

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
        let name = |(row, peer): (usize, Peer)| {
            format!("{experiment}: {}, {}", rows[row].name(), peer.name())
        };
        let measure = |(row, peer): (usize, Peer)| measure(&rows[row], peer);
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

    pub(crate) fn echoes(&self, row: usize, peer: Peer, of: Of<R, F>) -> Vec<&EchoSummary> {
        let found = self.samples.found((row, peer));
        found
            .filter_map(|found| of(&self.rows[row], found))
            .collect()
    }

    /// Why a cell has nothing to show.
    pub(crate) fn why(&self, row: usize, peer: Peer) -> String {
        match self.rows[row].lacks(peer) {
            Some(lacks) => lacks.to_owned(),
            None => self.samples.why((row, peer)),
        }
    }

    /// The same, of whoever may not take part at all.
    fn absence(&self, row: usize, peer: Peer) -> String {
        match self.peers.contains(&peer) {
            true => format!("{}: {}", peer.name(), self.why(row, peer)),
            false => format!("{} takes no part", peer.name()),
        }
    }

    /// A figure of a cell, or why there is none.
    pub(crate) fn figure(&self, row: usize, peer: Peer, of: &Column<F>) -> Result<f64, String> {
        let found: Vec<&F> = self.samples.found((row, peer)).collect();
        of.of(&found, || self.absence(row, peer))
    }

    /// A latency of a cell, or why there is none. Of one that never answered it is the time waited
    /// so far: less than the figure would be, so what is missed by it is missed.
    pub(crate) fn reached(
        &self,
        row: usize,
        peer: Peer,
        of: Of<R, F>,
        figure: &Figure,
    ) -> Result<f64, String> {
        let echoes = self.echoes(row, peer, of);
        figure.of(&echoes, || self.absence(row, peer))
    }

    /// The same of who answers at all: for what others are held against.
    pub(crate) fn quoted(
        &self,
        row: usize,
        peer: Peer,
        of: Of<R, F>,
        figure: &Figure,
    ) -> Result<f64, String> {
        match is_silent(&self.echoes(row, peer, of)) {
            true => Err(format!("{} does not answer", peer.name())),
            false => self.reached(row, peer, of, figure),
        }
    }

    /// A table of the rows that are shown.
    pub(crate) fn table(
        &self,
        title: &str,
        shown: impl Fn(&R) -> bool,
        cell: impl Fn(usize, Peer) -> Cell,
    ) -> Table {
        let rows = self.named().filter(|(_, row)| shown(&self.rows[*row]));
        let row = |(name, row): (&str, usize)| {
            let cells = self.peers.iter().map(|&peer| cell(row, peer));
            [Cell::from(name)].into_iter().chain(cells).collect()
        };
        let peers = self.peers.iter().map(|peer| peer.name());
        Table::new(
            title,
            [self.heading].into_iter().chain(peers),
            rows.map(row),
        )
    }

    /// A table of two latencies in each cell.
    pub(crate) fn pairs(
        &self,
        title: &str,
        shown: impl Fn(&R) -> bool,
        of: Of<R, F>,
        figures: [Figure; 2],
    ) -> Table {
        self.table(title, shown, |row, peer| {
            let echoes = self.echoes(row, peer, of);
            echoes::pair(&echoes, &figures, || self.why(row, peer))
        })
    }

    /// A table of what was never answered.
    pub(crate) fn unanswered(&self, title: &str, of: Of<R, F>) -> Table {
        let cell = |row, peer| {
            let share = UNANSWERED.of(&self.echoes(row, peer, of), || self.why(row, peer));
            number(share, UNANSWERED.unit)
        };
        self.table(title, |_| true, cell)
    }

    /// The p99 of every cell as bars, in microseconds. Of who never answers there is no end, if
    /// there is a word for that.
    pub(crate) fn bars(&self, title: &str, endless: &str, of: Of<R, F>) -> Plot {
        let bar = |row: usize, peer: Peer| {
            let echoes = self.echoes(row, peer, of);
            let is_endless = !endless.is_empty() && is_silent(&echoes);
            let p99 = is_endless.then_some(f64::INFINITY);
            Some((peer.name().to_owned(), p99.or_else(|| P99.value(&echoes))?))
        };
        let group = |(name, row): (&str, usize)| {
            let bars = self.peers.iter().filter_map(|&peer| bar(row, peer));
            (name.to_owned(), bars.collect())
        };
        Plot::Bars {
            title: title.to_owned(),
            unit: "us".to_owned(),
            log: true,
            endless: endless.to_owned(),
            groups: self.named().map(group).collect(),
        }
    }

    /// Every measurement.
    pub(crate) fn raw(&self, found: impl Fn(&F) -> Value) -> Value {
        let case = |(row, peer): (usize, Peer)| {
            let mut case = self.rows[row].case();
            case["peer"] = peer.name().into();
            case
        };
        self.samples.raw(case, found)
    }
}
