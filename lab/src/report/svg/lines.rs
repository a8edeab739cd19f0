//! Lines: each named at its end, so that no legend has to be matched by colour.

use maud::{Markup, html};

use super::{Axis, Drawing, Point, WIDTH, brief, colour_class, line, text, text_width};
use crate::report::number::{NARROW_SPACE, printable, short};
use crate::report::plot::{Lines, colours, is_ours};
use crate::report::scale::{Scale, Zero};

const TOP: f64 = 34.0;
const HEIGHT_MIN: f64 = 300.0;
const LABEL_PITCH: f64 = 17.0;
const MARKERS_MAX: usize = 40;
/// More than the drawing has columns to show them in.
const POINTS_MAX: usize = 1_600;

struct Frame {
    x: Axis,
    y: Axis,
}

/// A point as drawn, and as measured.
type Placed = (Point, Point);

/// A series in runs: a line must not bridge a value that is missing.
struct Line<'a> {
    name: &'a str,
    colour: usize,
    runs: Vec<Vec<Placed>>,
}

pub(super) fn draw(of: &Lines) -> Drawing {
    let series = &of.series;
    let names: Vec<&str> = series.iter().map(|(name, _)| name.as_str()).collect();
    let frame = Frame::new(of, &names);
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
    let (left, bottom) = (frame.x.low, frame.y.low);
    let body = html! {
        (frame.axes(of))
        @for line in &lines { (line.draw()) }
        (frame.labels(&lines))
        @if measured == 0 {
            (text("muted", left + 12.0, TOP + 24.0, "Nothing was measured."))
        } @else if drawn < measured {
            (text("muted", left, bottom + 52.0, &note))
        }
    };
    Drawing {
        height: bottom + if drawn < measured { 60.0 } else { 42.0 },
        description: describe(of),
        body,
    }
}

impl Frame {
    fn new(of: &Lines, names: &[&str]) -> Frame {
        let points = || of.series.iter().flat_map(|(_, points)| points);
        let (xs, ys) = (points().map(|(x, _)| *x), points().map(|(_, y)| *y));
        let scale = |log, values: Vec<f64>, zero| match log {
            true => Scale::log(values),
            false => Scale::linear(values, zero),
        };
        let x = scale(of.log_x, xs.collect(), Zero::Optional);
        let y = scale(of.log_y, ys.collect(), Zero::Shown);
        let labels = y.ticks().into_iter().filter_map(|tick| tick.label);
        let labels = labels.map(|label| text_width(&label));
        let name_widths = names.iter().map(|name| text_width(&brief(name)));
        let x = Axis {
            scale: x,
            low: labels.fold(20.0, f64::max) + 12.0,
            high: WIDTH - name_widths.fold(20.0, f64::max) - 34.0,
        };
        let y = Axis {
            scale: y,
            low: TOP + HEIGHT_MIN.max(of.series.len() as f64 * LABEL_PITCH),
            high: TOP,
        };
        Frame { x, y }
    }

    fn axes(&self, of: &Lines) -> Markup {
        let named = |(name, log)| format!("{name}{}", if log { " (logarithmic)" } else { "" });
        let [x, y] = [(&of.x, of.log_x), (&of.y, of.log_y)].map(named);
        let bottom = self.y.low;
        html! {
            (text("axis", 0.0, 16.0, &y))
            (text("axis end", self.x.high, bottom + 35.0, &x))
            (self.y.rows(self.x.low, self.x.high))
            (self.x.columns(TOP, bottom))
            (line("base", (self.x.low, bottom), (self.x.high, bottom)))
        }
    }

    fn runs(&self, points: &[Point]) -> Vec<Vec<Placed>> {
        let place = |&(x, y): &Point| Some(((self.x.place(x)?, self.y.place(y)?), (x, y)));
        let placed: Vec<Option<Placed>> = points.iter().map(place).collect();
        let runs = placed.split(Option::is_none).filter(|run| !run.is_empty());
        let runs = runs.map(|run| run.iter().copied().flatten().collect());
        runs.collect()
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
        let mut most = self.y.low;
        for row in rows.iter_mut().rev() {
            *row = row.min(most);
            most = *row - LABEL_PITCH;
        }
        let right = self.x.high;
        let start = right + 12.0;
        html! {
            @for ((line, (x, y)), row) in ends.into_iter().zip(rows) {
                @if (y - row).abs() > 2.0 || right - x > 2.0 {
                    path class={ "leader " (colour_class(line.colour)) }
                        d=(format!("M{:.1} {y:.1}L{:.1} {row:.1}", x + 6.0, start - 2.0)) {}
                }
                (marker(line.colour, (start + 4.0, row), line.name))
                (text(&line.class("name"), start + 14.0, row + 4.0, &brief(line.name)))
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

    fn class(&self, class: &str) -> String {
        let strong = if is_ours(self.name) { " ours" } else { "" };
        format!("{class}{strong}")
    }

    fn draw(&self) -> Markup {
        let class = self.class(&format!("line {}", colour_class(self.colour)));
        let path = |run: &Vec<Placed>| {
            let points = thinned(run).into_iter();
            let points: Vec<String> = points.map(|((x, y), _)| format!("{x:.1} {y:.1}")).collect();
            format!("M{}", points.join("L"))
        };
        let is_marked = self.len() <= MARKERS_MAX;
        let marked = self.runs.iter().flatten().filter(|_| is_marked);
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

/// A mark whose shape, too, says which series it belongs to: a disc, a square, a triangle, or a
/// square on its corner.
fn marker(colour: usize, (x, y): Point, said: &str) -> Markup {
    const SHAPES: [&str; 4] = [
        "m-3.6 0a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0 -7.2 0Z",
        "m-3.3 -3.3h6.6v6.6h-6.6Z",
        "m0 -4.6l4.4 7.8h-8.8Z",
        "m0 -4.8l4.8 4.8l-4.8 4.8l-4.8 -4.8Z",
    ];
    let shape = SHAPES[colour % SHAPES.len()];
    html! {
        path class={ "fill mark " (colour_class(colour)) } d=(format!("M{x:.1} {y:.1}{shape}")) {
            title { (printable(said)) }
        }
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

fn describe(Lines { x, y, series, .. }: &Lines) -> String {
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
