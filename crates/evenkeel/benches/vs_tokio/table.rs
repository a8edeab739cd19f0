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
    /// The names of the servers without a runtime, where the table has such.
    limits: Vec<&'static str>,
    /// What there is to say of the figures.
    notes: Vec<String>,
    rows: Vec<Row>,
}

struct Row {
    name: String,
    median: Each<f64>,
    /// Of evenkeel to Tokio.
    ratio: Ratio,
    /// Of each server without a runtime to Tokio: what is attainable at all.
    limit_ratios: Vec<Ratio>,
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
            limits: Vec::new(),
            notes: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// With columns for servers without a runtime. Rows may do without all of them.
    pub(crate) fn with_limits(mut self, names: &[&'static str]) -> Self {
        self.limits = names.to_vec();
        self
    }

    /// With a line below it.
    pub(crate) fn with_note(mut self, note: Option<&String>) -> Self {
        self.notes.extend(note.cloned());
        self
    }

    pub(crate) fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// Adds the figures of each round.
    pub(crate) fn add(&mut self, name: &str, rounds: &[Each<f64>]) {
        let figures = |pick: fn(&Each<f64>) -> f64| rounds.iter().map(pick).collect::<Vec<_>>();
        let (evenkeel, tokio) = (figures(|each| each.evenkeel), figures(|each| each.tokio));
        let limits: Vec<Vec<_>> = (0..rounds.first().map_or(0, |each| each.limits.len()))
            .map(|index| rounds.iter().map(|each| each.limits[index]).collect())
            .collect();
        self.rows.push(Row {
            name: name.to_owned(),
            ratio: self.ratio(&evenkeel, &tokio),
            limit_ratios: limits.iter().map(|ours| self.ratio(ours, &tokio)).collect(),
            median: Each {
                evenkeel: median(evenkeel),
                tokio: median(tokio),
                limits: limits.into_iter().map(median).collect(),
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
        let limit_heads: String = self
            .limits
            .iter()
            .map(|name| {
                format!(
                    "{name:>12} {:>10}   {:14}",
                    format!("{name}:tokio"),
                    "spread"
                )
            })
            .collect();
        let line = format!(
            "{:28} {:>12} {:>12} {:>7}   {:14}{limit_heads}",
            "", "evenkeel", "tokio", "ratio", "spread"
        );
        println!("{}", line.trim_end());
        for row in &self.rows {
            row.print(self.limits.len());
        }
        let logs: f64 = self.rows.iter().map(|row| row.ratio.of_medians.ln()).sum();
        let mean = (logs / self.rows.len() as f64).exp();
        println!("{:28} {:>12} {:>12} {mean:7.2}", "geometric mean", "", "");
        for note in &self.notes {
            println!("{note}");
        }
    }
}

impl Row {
    /// With so many columns for servers without a runtime, whether it has them or not.
    fn print(&self, limit_count: usize) {
        let Each {
            evenkeel,
            tokio,
            limits,
        } = &self.median;
        let limits: String = (0..limit_count)
            .map(
                |index| match (limits.get(index), self.limit_ratios.get(index)) {
                    (Some(limit), Some(ratio)) => {
                        let spread = ratio.spread();
                        format!("{limit:12.1} {:10.2}   {spread:14}", ratio.of_medians)
                    }
                    _ => format!("{:>12} {:>10}   {:14}", "-", "-", "-"),
                },
            )
            .collect();
        let line = format!(
            "{:28} {evenkeel:12.1} {tokio:12.1} {:7.2}   {:14}{limits}",
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
