//! Medians, ratios and spreads, in a table.

/// Results of several benchmarks in one unit.
pub(crate) struct Table {
    title: String,
    unit: &'static str,
    rows: Vec<Row>,
}

struct Row {
    name: String,
    ours: f64,
    theirs: f64,
    /// Above 1: evenkeel is better.
    ratio: f64,
    spread: (f64, f64),
}

impl Table {
    pub(crate) fn new(title: &str, unit: &'static str) -> Self {
        Self {
            title: title.to_owned(),
            unit,
            rows: Vec::new(),
        }
    }

    /// Adds the rounds' pairs of a figure of which less is better, such as a time.
    pub(crate) fn add_less_is_better(&mut self, name: &str, rounds: &[(f64, f64)]) {
        self.add(name, rounds, |ours, theirs| theirs / ours);
    }

    /// Adds the rounds' pairs of a figure of which more is better, such as a throughput.
    pub(crate) fn add_more_is_better(&mut self, name: &str, rounds: &[(f64, f64)]) {
        self.add(name, rounds, |ours, theirs| ours / theirs);
    }

    fn add(&mut self, name: &str, rounds: &[(f64, f64)], ratio: impl Fn(f64, f64) -> f64) {
        let ratios: Vec<_> = rounds
            .iter()
            .map(|&(ours, theirs)| ratio(ours, theirs))
            .collect();
        let (ours, theirs): (Vec<_>, Vec<_>) = rounds.iter().copied().unzip();
        let (ours, theirs) = (median(ours), median(theirs));
        let spread = ratios
            .iter()
            .fold((f64::INFINITY, 0.0_f64), |(least, most), &ratio| {
                (least.min(ratio), most.max(ratio))
            });
        self.rows.push(Row {
            name: name.to_owned(),
            ours,
            theirs,
            ratio: ratio(ours, theirs),
            spread,
        });
    }

    /// Prints the table, with the geometric mean of its ratios.
    pub(crate) fn print(&self) {
        if self.rows.is_empty() {
            return;
        }
        println!(
            "\n{} ({}; ratio above 1: evenkeel is better)",
            self.title, self.unit
        );
        println!(
            "{:28} {:>12} {:>12} {:>7}   spread",
            "", "evenkeel", "tokio", "ratio"
        );
        for Row {
            name,
            ours,
            theirs,
            ratio,
            spread: (least, most),
        } in &self.rows
        {
            println!("{name:28} {ours:12.1} {theirs:12.1} {ratio:7.2}   {least:.2} .. {most:.2}");
        }
        let logs: f64 = self.rows.iter().map(|row| row.ratio.ln()).sum();
        let mean = (logs / self.rows.len() as f64).exp();
        println!("{:28} {:>12} {:>12} {mean:7.2}", "geometric mean", "", "");
    }
}

/// The middle of some figures.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    if figures.len() % 2 == 1 {
        figures[middle]
    } else {
        f64::midpoint(figures[middle - 1], figures[middle])
    }
}
