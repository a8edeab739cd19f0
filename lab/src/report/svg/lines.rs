//! Lines: each named at its end, so that no legend has to be matched by colour.

use super::{Canvas, Drawing, WIDTH, brief, colour_class, text_width};
use crate::report::html::escape;
use crate::report::number::{NARROW_SPACE, short};
use crate::report::plot::{colours, is_ours};
use crate::report::scale::{Scale, Zero};

const TOP: f64 = 34.0;
const HEIGHT_MIN: f64 = 300.0;
const LABEL_PITCH: f64 = 17.0;
const MARKERS_MAX: usize = 40;
/// More than the drawing has columns to show them in.
const POINTS_MAX: usize = 1_600;

type Series = [(String, Vec<(f64, f64)>)];

pub(super) struct Axes<'a> {
    pub(super) x: &'a str,
    pub(super) y: &'a str,
    pub(super) log_x: bool,
    pub(super) log_y: bool,
}

struct Frame {
    left: f64,
    right: f64,
    bottom: f64,
    x: Scale,
    y: Scale,
}

pub(super) fn draw(axes: &Axes<'_>, series: &Series) -> Drawing {
    let names: Vec<&str> = series.iter().map(|(name, _)| name.as_str()).collect();
    let colours = colours(&names);
    let points = || series.iter().flat_map(|(_, points)| points);
    let xs = points().map(|(x, _)| *x);
    let ys = points().map(|(_, y)| *y);
    let x = if axes.log_x {
        Scale::log(xs)
    } else {
        Scale::linear(xs, Zero::Optional)
    };
    let y = if axes.log_y {
        Scale::log(ys)
    } else {
        Scale::linear(ys, Zero::Shown)
    };
    let ticks = y.ticks();
    let labels = ticks.iter().filter_map(|tick| tick.label.as_deref());
    let left = labels.map(text_width).fold(20.0, f64::max) + 12.0;
    let name_width = names
        .iter()
        .map(|name| text_width(&brief(name)))
        .fold(20.0, f64::max);
    let right = WIDTH - name_width - 34.0;
    let height = HEIGHT_MIN.max(series.len() as f64 * LABEL_PITCH);
    let frame = Frame {
        left,
        right,
        bottom: TOP + height,
        x,
        y,
    };

    let mut canvas = Canvas::default();
    frame.axes(&mut canvas, axes);
    let mut undrawn = 0;
    let mut ends = Vec::new();
    for (index, ((_, points), colour)) in series.iter().zip(&colours).enumerate() {
        let runs = frame.runs(points);
        let drawn: usize = runs.iter().map(Vec::len).sum();
        undrawn += points.len() - drawn;
        frame.series(&mut canvas, names[index], &runs, *colour);
        if let Some((x, y, ..)) = runs.last().and_then(|run| run.last()) {
            ends.push((*x, *y, names[index], *colour));
        }
    }
    frame.labels(&mut canvas, ends);
    if points().next().is_none() {
        canvas.text("muted", left + 12.0, TOP + 24.0, "Nothing was measured.");
    } else if undrawn > 0 {
        let what = if undrawn == 1 {
            "1 point has"
        } else {
            &format!("{undrawn} points have")
        };
        let note = format!("{what} no place on these axes: not a number, or not above zero.");
        canvas.text("muted", left, frame.bottom + 52.0, &note);
    }
    Drawing {
        height: frame.bottom + if undrawn > 0 { 60.0 } else { 42.0 },
        description: describe(axes, series),
        body: canvas.body,
    }
}

/// A point as drawn and as measured: x, y, and their values.
type Placed = (f64, f64, f64, f64);

impl Frame {
    fn axes(&self, canvas: &mut Canvas, axes: &Axes<'_>) {
        let named = |name: &str, log| {
            if log {
                format!("{name} (logarithmic)")
            } else {
                name.to_owned()
            }
        };
        canvas.text("axis", 0.0, 16.0, &named(axes.y, axes.log_y));
        canvas.text(
            "axis end",
            self.right,
            self.bottom + 35.0,
            &named(axes.x, axes.log_x),
        );
        canvas.y_axis(&self.y, |part| self.row(part), self.left, self.right);
        canvas.x_axis(&self.x, |part| self.column(part), TOP, self.bottom);
        canvas.line("base", (self.left, self.bottom), (self.right, self.bottom));
    }

    fn column(&self, part: f64) -> f64 {
        self.left + part * (self.right - self.left)
    }

    fn row(&self, part: f64) -> f64 {
        self.bottom - part * (self.bottom - TOP)
    }

    /// The points that have a place, in runs: a line must not bridge a value that is missing.
    fn runs(&self, points: &[(f64, f64)]) -> Vec<Vec<Placed>> {
        let mut runs = vec![Vec::new()];
        for (x, y) in points {
            match (self.x.position(*x), self.y.position(*y)) {
                (Some(at_x), Some(at_y)) => {
                    let placed = (self.column(at_x), self.row(at_y), *x, *y);
                    if let Some(run) = runs.last_mut() {
                        run.push(placed);
                    }
                }
                _ => runs.push(Vec::new()),
            }
        }
        runs.retain(|run| !run.is_empty());
        runs
    }

    fn series(&self, canvas: &mut Canvas, name: &str, runs: &[Vec<Placed>], colour: usize) {
        let class = colour_class(colour);
        let strong = if is_ours(name) { " ours" } else { "" };
        let count: usize = runs.iter().map(Vec::len).sum();
        for run in runs {
            let path: Vec<String> = thinned(run)
                .iter()
                .map(|(x, y, ..)| format!("{x:.1} {y:.1}"))
                .collect();
            canvas.push(&format!(
                "<path class=\"line {class}{strong}\" d=\"M{}\"/>",
                path.join("L")
            ));
        }
        if count > MARKERS_MAX {
            return;
        }
        for (x, y, at, value) in runs.iter().flatten() {
            let said = format!(
                "{name}: {} at {}",
                short(*value, NARROW_SPACE),
                short(*at, NARROW_SPACE)
            );
            marker(canvas, colour, (*x, *y), &said);
        }
    }

    /// Names each line at the height of its end, moved apart where ends are close.
    fn labels(&self, canvas: &mut Canvas, mut ends: Vec<(f64, f64, &str, usize)>) {
        ends.sort_by(|a, b| a.1.total_cmp(&b.1));
        let mut rows: Vec<f64> = Vec::new();
        for (_, y, ..) in &ends {
            let least = rows.last().map_or(f64::MIN, |last| last + LABEL_PITCH);
            rows.push(y.max(least));
        }
        // What was pushed past the bottom comes back up, and takes along what is in its way.
        let mut most = self.bottom;
        for row in rows.iter_mut().rev() {
            *row = row.min(most);
            most = *row - LABEL_PITCH;
        }
        for ((x, y, name, colour), row) in ends.into_iter().zip(rows) {
            let class = colour_class(colour);
            let start = self.right + 12.0;
            if (y - row).abs() > 2.0 || self.right - x > 2.0 {
                canvas.push(&format!(
                    "<path class=\"leader {class}\" d=\"M{:.1} {y:.1}L{:.1} {row:.1}\"/>",
                    x + 6.0,
                    start - 2.0
                ));
            }
            marker(canvas, colour, (start + 4.0, row), name);
            let strong = if is_ours(name) { " ours" } else { "" };
            canvas.text(
                &format!("name{strong}"),
                start + 14.0,
                row + 4.0,
                &brief(name),
            );
        }
    }
}

/// A mark whose shape, too, says which series it belongs to.
fn marker(canvas: &mut Canvas, colour: usize, (x, y): (f64, f64), said: &str) {
    let shape = match colour % 4 {
        0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.6\""),
        1 => format!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"6.6\" height=\"6.6\"",
            x - 3.3,
            y - 3.3
        ),
        2 => polygon(&[(x, y - 4.6), (x + 4.4, y + 3.2), (x - 4.4, y + 3.2)]),
        _ => polygon(&[(x, y - 4.8), (x + 4.8, y), (x, y + 4.8), (x - 4.8, y)]),
    };
    let tag = shape
        .split([' ', '<'])
        .nth(1)
        .unwrap_or("circle")
        .to_owned();
    let class = colour_class(colour);
    canvas.push(&format!(
        "{shape} class=\"fill mark {class}\"><title>{}</title></{tag}>",
        escape(said)
    ));
}

fn polygon(points: &[(f64, f64)]) -> String {
    let points: Vec<String> = points
        .iter()
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    format!("<polygon points=\"{}\"", points.join(" "))
}

/// At most [`POINTS_MAX`] points: of each stretch the lowest and the highest, in their order, so
/// that no peak is lost.
fn thinned(run: &[Placed]) -> Vec<Placed> {
    if run.len() <= POINTS_MAX {
        return run.to_vec();
    }
    let stretch = run.len().div_ceil(POINTS_MAX / 2);
    let mut kept = Vec::with_capacity(POINTS_MAX);
    for part in run.chunks(stretch) {
        let by_row = |a: &&Placed, b: &&Placed| a.1.total_cmp(&b.1);
        let (Some(high), Some(low)) = (part.iter().min_by(by_row), part.iter().max_by(by_row))
        else {
            continue;
        };
        kept.extend(if high.0 <= low.0 {
            [*high, *low]
        } else {
            [*low, *high]
        });
    }
    kept
}

fn describe(axes: &Axes<'_>, series: &Series) -> String {
    let mut text = format!("Lines of {} over {}.", axes.y, axes.x);
    for (name, points) in series.iter().take(12) {
        let (Some(first), Some(last)) = (points.first(), points.last()) else {
            text.push_str(&format!(" {name}: no points."));
            continue;
        };
        text.push_str(&format!(
            " {name}: from {} at {} to {} at {}.",
            short(first.1, ' '),
            short(first.0, ' '),
            short(last.1, ' '),
            short(last.0, ' ')
        ));
    }
    text.push_str(" The table that follows has the numbers.");
    text
}
