//! A matrix of measurements: what goes on down, who serves across.

use super::echoes::{Echoes, Figure};
use super::figures::{self, median};
use super::lab::Lab;
use super::samples::{Describe, Samples};
use crate::error::Result;
use crate::load::EchoSummary;
use crate::peers::Peer;
use crate::report::{Cell, Plot, Table};

/// What goes on.
pub(crate) trait Row {
    fn name(&self) -> &str;

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
        rows: Vec<R>,
        peers: Vec<Peer>,
        measure: impl Fn(&R, Peer) -> Result<F>,
    ) -> Self
    where
        F: Describe,
    {
        let cells = (0..rows.len()).flat_map(|row| peers.iter().map(move |&peer| (row, peer)));
        let cells = cells.filter(|&(row, peer)| rows[row].lacks(peer).is_none());
        let name = |(row, peer): (usize, Peer)| {
            format!("{experiment}: {}, {}", rows[row].name(), peer.name())
        };
        let measure = |(row, peer): (usize, Peer)| measure(&rows[row], peer);
        let samples = Samples::measure(lab, lab.rounds(), cells, name, measure);
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

    pub(crate) fn echoes(&self, row: usize, peer: Peer, of: Of<R, F>) -> Echoes<'_> {
        let found = self.samples.found((row, peer));
        Echoes(
            found
                .filter_map(|found| of(&self.rows[row], found))
                .collect(),
        )
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

    /// A figure of a cell, or why there is none. Of one that never answered it is the time waited
    /// so far: less than the figure would be, so what is missed by it is missed.
    pub(crate) fn reached(
        &self,
        row: usize,
        peer: Peer,
        of: Of<R, F>,
        figure: Figure,
    ) -> Result<f64, String> {
        let median = self.echoes(row, peer, of).median(figure);
        median.ok_or_else(|| self.absence(row, peer))
    }

    /// The same of who answers at all, and of requests enough: for what others are held against.
    pub(crate) fn quoted(
        &self,
        row: usize,
        peer: Peer,
        of: Of<R, F>,
        figure: Figure,
    ) -> Result<f64, String> {
        let echoes = self.echoes(row, peer, of);
        if echoes.is_silent() {
            return Err(format!("{} does not answer", peer.name()));
        }
        // That nothing was found says more than that it is not enough.
        if !echoes.0.is_empty() {
            echoes.enough(figure)?;
        }
        self.reached(row, peer, of, figure)
    }

    /// The median of what may have been found, or why there is none.
    pub(crate) fn median(
        &self,
        row: usize,
        peer: Peer,
        figure: fn(&F) -> Option<f64>,
    ) -> Result<f64, String> {
        let found = self.samples.found((row, peer)).filter_map(figure);
        median(found).ok_or_else(|| self.absence(row, peer))
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
        let names = self.peers.iter().map(|peer| peer.name());
        figures::table(
            title,
            [self.heading].into_iter().chain(names),
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
            echoes.pair(figures, || self.why(row, peer))
        })
    }

    /// A table of what was never answered.
    pub(crate) fn unanswered(&self, title: &str, of: Of<R, F>) -> Table {
        self.table(
            title,
            |_| true,
            |row, peer| {
                let share = self.echoes(row, peer, of).median(Figure::Unanswered);
                figures::number(share.ok_or_else(|| self.why(row, peer)), ("%", 1))
            },
        )
    }

    /// The p99 of every cell as bars, in microseconds. Of who never answers there is no end, if
    /// there is a word for that.
    pub(crate) fn bars(&self, title: &str, endless: &str, of: Of<R, F>) -> Plot {
        let bar = |row: usize, peer: Peer| {
            let echoes = self.echoes(row, peer, of);
            let is_endless = !endless.is_empty() && echoes.is_silent();
            let p99 = is_endless.then_some(f64::INFINITY);
            Some((
                peer.name().to_owned(),
                p99.or_else(|| echoes.median(Figure::P99))?,
            ))
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
}
