//! One plot of a report as a picture that stands alone, made from the report's JSON.

use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use super::{Plot, html, svg};
use crate::error::{Error, Result};
use serde::Deserialize;

/// Which plot, of which report, and where it goes.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct PictureArgs {
    /// The JSON that an experiment wrote.
    report: PathBuf,
    /// The experiment's name in it.
    experiment: String,
    /// Where the picture goes.
    out: PathBuf,
    /// Which of the experiment's plots, from the top.
    #[arg(long, value_name = "N", default_value = "1")]
    plot: NonZeroU32,
}

/// Draws the picture.
pub(crate) fn run(args: &PictureArgs) -> Result<()> {
    let (path, name) = (args.report.display(), &args.experiment);
    let text = fs::read_to_string(&args.report);
    let text = text.map_err(|source| Error::new(format!("cannot read {path}: {source}")))?;
    let no_report = |source| Error::new(format!("{path} is no report of the lab: {source}"));
    let report: Written = serde_json::from_str(&text).map_err(no_report)?;
    let experiment = find(&report, &args.report, name)?;
    let plot = experiment.plots.get(args.plot.get() as usize - 1);
    let plot = plot.ok_or_else(|| {
        let (plots, wanted) = (experiment.plots.len(), args.plot);
        let what = format!("`{name}` has {plots} plots in {path}");
        Error::new(format!("{what}, and no plot {wanted}"))
    })?;
    super::write(&args.out, Ok(draw(plot)))
}

fn find<'a>(report: &'a Written, path: &Path, wanted: &str) -> Result<&'a WrittenExperiment> {
    let mut experiments = report.experiments.iter();
    let found = experiments.find(|experiment| experiment.name == wanted);
    found.ok_or_else(|| {
        let names = report.experiments.iter().map(|found| found.name.as_str());
        let (path, found) = (path.display(), names.collect::<Vec<_>>().join(", "));
        Error::new(format!("{path} has no experiment `{wanted}`, but {found}"))
    })
}

/// With the style sheet's colours, light and dark.
fn draw(plot: &Plot) -> String {
    svg::draw_alone(plot, &html::style_of_plots()).into_string()
}

/// What of a report's JSON is needed.
#[derive(Deserialize)]
struct Written {
    experiments: Vec<WrittenExperiment>,
}

#[derive(Deserialize)]
struct WrittenExperiment {
    name: String,
    plots: Vec<Plot>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Bars;

    fn bars() -> Plot {
        let bar = |name: &str, value| (name.to_owned(), value);
        Plot::Bars(Bars {
            title: "p99 & more".to_owned(),
            unit: "us".to_owned(),
            log: true,
            endless: "no answer".to_owned(),
            groups: vec![(
                "4 hogs".to_owned(),
                vec![bar("evenkeel", 59.0), bar("tokio", f64::INFINITY)],
            )],
        })
    }

    fn written(plot: &Plot) -> Plot {
        let text = serde_json::to_string(plot).expect("it has a shape in JSON");
        serde_json::from_str(&text).expect("it is read as it was written")
    }

    #[test]
    fn a_plot_is_drawn_from_json_as_it_was_measured() {
        let plot = bars();
        let again = written(&plot);
        assert_eq!(draw(&again), draw(&plot));
        assert!(draw(&again).contains("no answer"));
    }

    #[test]
    fn a_picture_stands_alone() {
        let picture = draw(&bars());
        assert!(picture.starts_with("<svg xmlns="), "{picture}");
        assert!(picture.contains("prefers-color-scheme: dark"));
        let titles = picture.matches("p99 &amp; more").count();
        assert_eq!(titles, 2, "to be read, and to be seen");
        assert!(!picture.contains("body {"), "it is no page");
    }

    #[test]
    fn what_is_not_there_is_named() {
        let report: Written = serde_json::from_str(
            r#"{"experiments": [{"name": "shares", "plots": []}, {"name": "storm", "plots": []}]}"#,
        )
        .expect("a report");
        let error = find(&report, Path::new("a.json"), "sahres").err();
        let text = error.expect("there is none").to_string();
        assert!(
            text.contains("a.json") && text.contains("shares, storm"),
            "{text}"
        );
    }
}
