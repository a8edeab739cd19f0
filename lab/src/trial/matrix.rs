//! A matrix of measurements: what goes on down, who serves across.

use super::echoes::Echoes;
use super::figures;
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
    pub(crate) rows: Vec<R>,
    pub(crate) peers: Vec<Peer>,
    pub(crate) samples: Samples<(usize, Peer), F>,
}

impl<R: Row, F> Matrix<R, F> {
    /// Measures every cell in every round, peers in turn.
    pub(crate) fn measure(
        lab: &Lab,
        experiment: &str,
        rows: Vec<R>,
        peers: Vec<Peer>,
        measure: impl Fn(&R, Peer) -> Result<F>,
    ) -> Self
    where
        F: Describe,
    {
        let cells = (0..rows.len()).flat_map(|row| peers.iter().map(move |&peer| (row, peer)));
        let cells: Vec<_> = cells
            .filter(|&(row, peer)| rows[row].lacks(peer).is_none())
            .collect();
        let name = |(row, peer): (usize, Peer)| {
            format!("{experiment}: {}, {}", rows[row].name(), peer.name())
        };
        let measure = |(row, peer): (usize, Peer)| measure(&rows[row], peer);
        let samples = Samples::measure(lab, lab.rounds(), cells, name, measure);
        Matrix {
            rows,
            peers,
            samples,
        }
    }

    pub(crate) fn found(&self, row: usize, peer: Peer) -> impl Iterator<Item = &F> + Clone {
        self.samples.found((row, peer))
    }

    /// The echoes of one kind in a cell.
    pub(crate) fn echoes<'a>(
        &'a self,
        row: usize,
        peer: Peer,
        of: impl Fn(&'a F) -> Option<&'a EchoSummary>,
    ) -> Echoes<'a> {
        Echoes(self.found(row, peer).filter_map(of).collect())
    }

    /// Why a cell has nothing to show.
    pub(crate) fn why(&self, row: usize, peer: Peer) -> String {
        let lacks = || self.rows[row].lacks(peer).map(str::to_owned);
        let error = self.samples.error((row, peer)).or_else(lacks);
        error.unwrap_or_else(|| "not measured".to_owned())
    }

    /// The same, of whoever may not take part at all.
    pub(crate) fn absence(&self, row: usize, peer: Peer) -> String {
        match self.peers.contains(&peer) {
            true => format!("{}: {}", peer.name(), self.why(row, peer)),
            false => format!("{} takes no part", peer.name()),
        }
    }

    /// A table of the rows that are shown, whose first column is `heading`.
    pub(crate) fn table(
        &self,
        title: &str,
        heading: &str,
        shown: impl Fn(&R) -> bool,
        cell: impl Fn(usize, Peer) -> Cell,
    ) -> Table {
        let rows = self.rows.iter().enumerate().filter(|(_, row)| shown(row));
        let row = |(index, row): (usize, &R)| {
            let name = std::iter::once(Cell::from(row.name()));
            let cells = self.peers.iter().map(|&peer| cell(index, peer));
            name.chain(cells).collect()
        };
        let names = self.peers.iter().map(|peer| peer.name());
        figures::table(
            title,
            std::iter::once(heading).chain(names),
            rows.map(row).collect(),
        )
    }

    /// A latency of every cell as bars, in microseconds.
    pub(crate) fn bars(
        &self,
        title: &str,
        endless: &str,
        latency: impl Fn(usize, Peer) -> Option<f64>,
    ) -> Plot {
        let bars = |row: usize| {
            let bar = |&peer: &Peer| Some((peer.name().to_owned(), latency(row, peer)?));
            self.peers.iter().filter_map(bar).collect()
        };
        let groups = self.rows.iter().enumerate();
        Plot::Bars {
            title: title.to_owned(),
            unit: "us".to_owned(),
            log: true,
            endless: endless.to_owned(),
            groups: groups
                .map(|(row, of)| (of.name().to_owned(), bars(row)))
                .collect(),
        }
    }
}
