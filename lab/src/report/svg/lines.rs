//! Lines: each named at its end, so that no legend has to be matched by colour.

use maud::{Markup, html};

use super::{At, Drawing, Point, WIDTH, brief, colour_class, line, text, text_width};
use super::{x_axis, y_axis};
use crate::report::number::{NARROW_SPACE, printable, short};
use crate::report::plot::{colours, is_ours};
use crate::report::scale::{Scale, Zero};

const TOP: f64 = 34.0;
const HEIGHT_MIN: f64 = 300.0;
const LABEL_PITCH: f64 = 17.0;
const MARKERS_MAX: usize = 40;
/// More than the drawing has columns to show them in.
const POINTS_MAX: usize = 1_600;

type Series = [(String, Vec<Point>)];

struct Frame {
    left: f64,
    right: f64,
    bottom: f64,
    x: Scale,
    y: Scale,
}

/// A point as drawn, and as measured.
type Placed = (Point, Point);

/// A series in runs: a line must not bridge a value that is missing.
struct Line<'a> {
    name: &'a str,
    colour: usize,
    runs: Vec<Vec<Placed>>,
}

/// `axes`: what x and y are, and whether they are logarithmic.
pub(super) fn draw(axes: [(&String, bool); 2], series: &Series) -> Drawing {
    let names: Vec<&str> = series.iter().map(|(name, _)| name.as_str()).collect();
    let frame = Frame::new(axes, series, &names);
    let lines = names.iter().zip(colours(&names)).zip(series);
    let lines = lines.map(|((name, colour), (_, points))| Line {
        name,
        colour,
        runs: frame.runs(points),
    });
    let lines: Vec<Line<'_>> = lines.collect();
    let measured: usize = series.iter().map(|(_, points)| points.len()).sum();
    let drawn: usize = lines.iter().map(Line::len).sum();
    let undrawn = match measured - drawn {
        1 => "1 point has".to_owned(),
        points => format!("{points} points have"),
    };
    let note = format!("{undrawn} no place on these axes: not a number, or not above zero.");
    let body = html! {
        (frame.axes(axes))
        @for line in &lines { (line.draw()) }
        (frame.labels(&lines))
        @if measured == 0 {
            (text("muted", frame.left + 12.0, TOP + 24.0, "Nothing was measured."))
        } @else if drawn < measured {
            (text("muted", frame.left, frame.bottom + 52.0, &note))
        }
    };
    Drawing {
        height: frame.bottom + if drawn < measured { 60.0 } else { 42.0 },
        description: describe(axes, series),
        body,
    }
}

impl Frame {
    fn new([(_, log_x), (_, log_y)]: [(&String, bool); 2], of: &Series, names: &[&str]) -> Frame {
        let points = || of.iter().flat_map(|(_, points)| points);
        let (xs, ys) = (points().map(|(x, _)| *x), points().map(|(_, y)| *y));
        let x = match log_x {
            true => Scale::log(xs),
            false => Scale::linear(xs, Zero::Optional),
        };
        let y = match log_y {
            true => Scale::log(ys),
            false => Scale::linear(ys, Zero::Shown),
        };
        let labels = y.ticks().into_iter().filter_map(|tick| tick.label);
        let name_widths = names.iter().map(|name| text_width(&brief(name)));
        Frame {
            left: labels.map(|label| text_width(&label)).fold(20.0, f64::max) + 12.0,
            right: WIDTH - name_widths.fold(20.0, f64::max) - 34.0,
            bottom: TOP + HEIGHT_MIN.max(of.len() as f64 * LABEL_PITCH),
            x,
            y,
        }
    }

    fn axes(&self, axes: [(&String, bool); 2]) -> Markup {
        let [x, y] = axes.map(|(name, log)| match log {
            true => format!("{name} (logarithmic)"),
            false => name.clone(),
        });
        html! {
            (text("axis", 0.0, 16.0, &y))
            (text("axis end", self.right, self.bottom + 35.0, &x))
            (y_axis(&self.y, |part| self.row(part), self.left, self.right))
            (x_axis(&self.x, |part| self.column(part), TOP, self.bottom))
            (line("base", (self.left, self.bottom), (self.right, self.bottom)))
        }
    }

    fn column(&self, part: f64) -> f64 {
        self.left + part * (self.right - self.left)
    }

    fn row(&self, part: f64) -> f64 {
        self.bottom - part * (self.bottom - TOP)
    }

    fn runs(&self, points: &[Point]) -> Vec<Vec<Placed>> {
        let place = |&(x, y): &Point| {
            let (column, row) = (self.x.position(x)?, self.y.position(y)?);
            Some(((self.column(column), self.row(row)), (x, y)))
        };
        let placed: Vec<Option<Placed>> = points.iter().map(place).collect();
        let runs = placed.split(Option::is_none).filter(|run| !run.is_empty());
        runs.map(|run| run.iter().copied().flatten().collect())
            .collect()
    }

    /// Names each line at the height of its end, moved apart where ends are close.
    fn labels(&self, lines: &[Line<'_>]) -> Markup {
        let end = |line| Some((line, Line::end(line)?));
        let mut ends: Vec<(&Line<'_>, Point)> = lines.iter().filter_map(end).collect();
        ends.sort_by(|(_, a), (_, b)| a.1.total_cmp(&b.1));
        let mut rows: Vec<f64> = Vec::new();
        for (_, (_, y)) in &ends {
            let least = rows.last().map_or(f64::MIN, |last| last + LABEL_PITCH);
            rows.push(y.max(least));
        }
        // What was pushed past the bottom comes back up, and takes along what is in its way.
        let mut most = self.bottom;
        for row in rows.iter_mut().rev() {
            *row = row.min(most);
            most = *row - LABEL_PITCH;
        }
        let start = self.right + 12.0;
        let class = |line: &Line<'_>| format!("name{}", line.strong());
        html! {
            @for ((line, (x, y)), row) in ends.into_iter().zip(rows) {
                @if (y - row).abs() > 2.0 || self.right - x > 2.0 {
                    path class={ "leader " (colour_class(line.colour)) }
                        d=(format!("M{:.1} {y:.1}L{:.1} {row:.1}", x + 6.0, start - 2.0)) {}
                }
                (marker(line.colour, (start + 4.0, row), line.name))
                (text(&class(line), start + 14.0, row + 4.0, &brief(line.name)))
            }
        }
    }
}

impl Line<'_> {
    fn len(&self) -> usize {
        self.runs.iter().map(Vec::len).sum()
    }

    fn end(&self) -> Option<Point> {
        Some(self.runs.last()?.last()?.0)
    }

    fn strong(&self) -> &'static str {
        if is_ours(self.name) { " ours" } else { "" }
    }

    fn draw(&self) -> Markup {
        let class = format!("line {}{}", colour_class(self.colour), self.strong());
        let path = |run: &Vec<Placed>| {
            let points = thinned(run).into_iter();
            let points: Vec<String> = points.map(|((x, y), _)| format!("{x:.1} {y:.1}")).collect();
            format!("M{}", points.join("L"))
        };
        let marked = self
            .runs
            .iter()
            .flatten()
            .filter(|_| self.len() <= MARKERS_MAX);
        let said = |(x, y): Point| {
            let [x, y] = [x, y].map(|value| short(value, NARROW_SPACE));
            format!("{}: {y} at {x}", self.name)
        };
        html! {
            @for run in &self.runs { path class=(class) d=(path(run)) {} }
            @for (at, measured) in marked { (marker(self.colour, *at, &said(*measured))) }
        }
    }
}

/// A mark whose shape, too, says which series it belongs to.
fn marker(colour: usize, (x, y): Point, said: &str) -> Markup {
    let class = format!("fill mark {}", colour_class(colour));
    let title = html! { title { (printable(said)) } };
    let polygon = |corners: &[Point]| {
        let corners = corners
            .iter()
            .map(|(dx, dy)| format!("{:.1},{:.1}", x + dx, y + dy));
        let points = corners.collect::<Vec<_>>().join(" ");
        html! { polygon class=(class) points=(points) { (title) } }
    };
    match colour % 4 {
        0 => html! { circle class=(class) cx=(At(x)) cy=(At(y)) r="3.6" { (title) } },
        1 => html! {
            rect class=(class) x=(At(x - 3.3)) y=(At(y - 3.3)) width="6.6" height="6.6" { (title) }
        },
        2 => polygon(&[(0.0, -4.6), (4.4, 3.2), (-4.4, 3.2)]),
        _ => polygon(&[(0.0, -4.8), (4.8, 0.0), (0.0, 4.8), (-4.8, 0.0)]),
    }
}

/// At most [`POINTS_MAX`] points: of each stretch the lowest and the highest, in their order, so
/// that no peak is lost.
fn thinned(run: &[Placed]) -> Vec<Placed> {
    if run.len() <= POINTS_MAX {
        return run.to_vec();
    }
    let stretch = run.len().div_ceil(POINTS_MAX / 2);
    let extremes = |part: &[Placed]| {
        let by_row = |a: &&Placed, b: &&Placed| a.0.1.total_cmp(&b.0.1);
        let both = [part.iter().min_by(by_row), part.iter().max_by(by_row)];
        let mut both: Vec<Placed> = both.into_iter().flatten().copied().collect();
        both.sort_by(|a, b| a.0.0.total_cmp(&b.0.0));
        both
    };
    run.chunks(stretch).flat_map(extremes).collect()
}

fn describe([(x, _), (y, _)]: [(&String, bool); 2], series: &Series) -> String {
    let one = |(name, points): &(String, Vec<Point>)| {
        let (Some(first), Some(last)) = (points.first(), points.last()) else {
            return format!(" {name}: no points.");
        };
        let [from, at, to, last] = [first.1, first.0, last.1, last.0].map(|of| short(of, ' '));
        format!(" {name}: from {from} at {at} to {to} at {last}.")
    };
    let series: String = series.iter().take(12).map(one).collect();
    format!("Lines of {y} over {x}.{series} The table that follows has the numbers.")
}
