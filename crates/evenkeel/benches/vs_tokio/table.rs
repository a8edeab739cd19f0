//! Medians, ratios and spreads, in a table.

use crate::rounds::Each;

/// Which figures of a table are the better ones.
#[derive(Clone, Copy)]
pub(crate) enum Better {
    /// As of a time.
    Less,
    /// As of a throughput.
    More,
}

/// Results of several loads in one unit.
pub(crate) struct Table {
    title: &'static str,
    unit: &'static str,
    better: Better,
    rows: Vec<Row>,
}

struct Row {
    name: String,
    median: Each<f64>,
    /// Of evenkeel to Tokio.
    ratio: Ratio,
    /// Of the bare server to Tokio: what is attainable at all.
    bare_ratio: Option<Ratio>,
}

/// Above 1: the former is better than the latter.
struct Ratio {
    of_medians: f64,
    least: f64,
    greatest: f64,
}

impl Table {
    pub(crate) fn new(title: &'static str, unit: &'static str, better: Better) -> Self {
        Self {
            title,
            unit,
            better,
            rows: Vec::new(),
        }
    }

    pub(crate) fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// Adds the figures of each round.
    pub(crate) fn add(&mut self, name: &str, rounds: &[Each<f64>]) {
        let figures = |pick: fn(&Each<f64>) -> f64| rounds.iter().map(pick).collect::<Vec<_>>();
        let (evenkeel, tokio) = (figures(|each| each.evenkeel), figures(|each| each.tokio));
        let bare: Option<Vec<_>> = rounds.iter().map(|each| each.bare).collect();
        self.rows.push(Row {
            name: name.to_owned(),
            ratio: self.ratio(&evenkeel, &tokio),
            bare_ratio: bare.as_deref().map(|bare| self.ratio(bare, &tokio)),
            median: Each {
                evenkeel: median(evenkeel),
                tokio: median(tokio),
                bare: bare.map(median),
            },
        });
    }

    fn ratio(&self, ours: &[f64], theirs: &[f64]) -> Ratio {
        let ratio = |ours: f64, theirs: f64| match self.better {
            Better::Less => theirs / ours,
            Better::More => ours / theirs,
        };
        let of_rounds = ours.iter().zip(theirs).map(|(a, b)| ratio(*a, *b));
        let (least, greatest) = of_rounds.fold((f64::INFINITY, 0.0_f64), |(least, most), ratio| {
            (least.min(ratio), most.max(ratio))
        });
        Ratio {
            of_medians: ratio(median(ours.to_vec()), median(theirs.to_vec())),
            least,
            greatest,
        }
    }

    /// Prints the table, with the geometric mean of its ratios.
    pub(crate) fn print(&self) {
        if self.rows.is_empty() {
            return;
        }
        let better = match self.better {
            Better::Less => "less",
            Better::More => "more",
        };
        println!(
            "\n{} ({}, {better} is better; ratio above 1: better than tokio)",
            self.title, self.unit
        );
        let has_bare = self.rows.iter().any(|row| row.bare_ratio.is_some());
        let bare_head = if has_bare {
            format!("{:>12} {:>10}   spread", "bare", "bare:tokio")
        } else {
            String::new()
        };
        let line = format!(
            "{:28} {:>12} {:>12} {:>7}   {:14}{bare_head}",
            "", "evenkeel", "tokio", "ratio", "spread"
        );
        println!("{}", line.trim_end());
        for row in &self.rows {
            row.print(has_bare);
        }
        let logs: f64 = self.rows.iter().map(|row| row.ratio.of_medians.ln()).sum();
        let mean = (logs / self.rows.len() as f64).exp();
        println!("{:28} {:>12} {:>12} {mean:7.2}", "geometric mean", "", "");
    }
}

impl Row {
    fn print(&self, has_bare: bool) {
        let Each {
            evenkeel,
            tokio,
            bare,
        } = &self.median;
        let bare = match (bare, &self.bare_ratio) {
            (Some(bare), Some(ratio)) => {
                format!("{bare:12.1} {:10.2}   {}", ratio.of_medians, ratio.spread())
            }
            _ if has_bare => format!("{:>12} {:>10}   -", "-", "-"),
            _ => String::new(),
        };
        let line = format!(
            "{:28} {evenkeel:12.1} {tokio:12.1} {:7.2}   {:14}{bare}",
            self.name,
            self.ratio.of_medians,
            self.ratio.spread()
        );
        println!("{}", line.trim_end());
    }
}

impl Ratio {
    fn spread(&self) -> String {
        format!("{:.2} .. {:.2}", self.least, self.greatest)
    }
}

/// The middle of some figures.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    if figures.len() % 2 == 1 {
        figures[middle]
    } else {
        f64::midpoint(figures[middle - 1], figures[middle])
    }
}
