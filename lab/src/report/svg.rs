//! Plots as SVG, to stand inside the page: its style sheet colours them, light and dark.

mod bars;
mod lines;

use maud::{Markup, PreEscaped, Render, html};

use super::Plot;
use super::number::printable;
use super::plot::COLOURS;
use super::scale::Scale;

/// Units of the drawing; the page scales it to the room there is.
const WIDTH: f64 = 720.0;
/// About the mean width of a character of the labels. Without font metrics a guess must do: it
/// errs to the wide side.
const CHARACTER: f64 = 6.7;
const LABEL_CHARACTERS_MAX: usize = 36;

/// Room around a picture that stands alone, and above it for its title.
const MARGIN: f64 = 16.0;
const TITLE_HEIGHT: f64 = 32.0;

/// The drawing of `plot`; `id` is unique in the page, and fit for an attribute.
pub(super) fn draw(plot: &Plot, id: &str) -> Markup {
    let drawing = drawing(plot);
    html! {
        svg.plot role="img" aria-labelledby={ (id) "-t " (id) "-d" }
            viewBox=(format!("0 0 {WIDTH} {:.0}", drawing.height)) {
            title id={ (id) "-t" } { (printable(plot.title())) }
            desc id={ (id) "-d" } { (printable(&drawing.description)) }
            (drawing.body)
        }
    }
}

/// A file of its own: with its title, the rules in `style`, and paper to stand on.
pub(super) fn draw_alone(plot: &Plot, style: &str) -> Markup {
    let drawing = drawing(plot);
    let title = printable(plot.title());
    let (left, top) = (-MARGIN, -MARGIN - TITLE_HEIGHT);
    let width = WIDTH + 2.0 * MARGIN;
    let height = drawing.height + TITLE_HEIGHT + 2.0 * MARGIN;
    html! {
        svg xmlns="http://www.w3.org/2000/svg" class="plot" role="img" width=(width)
            viewBox=(format!("{left} {top} {width} {height:.0}")) {
            title { (title) }
            desc { (printable(&drawing.description)) }
            style { (PreEscaped(style)) }
            rect x=(left) y=(top) width=(width) height=(At(height)) fill="var(--paper)" {}
            (text("heading", 0.0, -TITLE_HEIGHT / 2.0, &title))
            (drawing.body)
        }
    }
}

struct Drawing {
    height: f64,
    /// The plot in words, for those who do not see it.
    description: String,
    body: Markup,
}

fn drawing(plot: &Plot) -> Drawing {
    match plot {
        Plot::Bars(bars) => bars::draw(bars),
        Plot::Lines(lines) => lines::draw(lines),
    }
}

/// A coordinate, rounded to a tenth: more is noise.
struct At(f64);

impl Render for At {
    fn render(&self) -> Markup {
        PreEscaped(format!("{:.1}", self.0))
    }
}

type Point = (f64, f64);

fn text(class: &str, x: f64, y: f64, text: &str) -> Markup {
    html! { text class=(class) x=(At(x)) y=(At(y)) { (printable(text)) } "\n" }
}

fn line(class: &str, from: Point, to: Point) -> Markup {
    let ((x1, y1), (x2, y2)) = (from, to);
    html! { line class=(class) x1=(At(x1)) y1=(At(y1)) x2=(At(x2)) y2=(At(y2)) {} "\n" }
}

/// A scale with its two ends in the drawing.
struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Axis {
    fn place(&self, value: f64) -> Option<f64> {
        let part = self.scale.position(value)?;
        Some(self.low + part * (self.high - self.low))
    }

    /// Vertical grid lines and, under `bottom`, their labels.
    fn columns(&self, top: f64, bottom: f64) -> Markup {
        let column = |x| ((x, top), (x, bottom), "tick mid", (x, bottom + 16.0));
        self.grid(column)
    }

    /// Horizontal grid lines and, left of `left`, their labels.
    fn rows(&self, left: f64, right: f64) -> Markup {
        self.grid(|y| ((left, y), (right, y), "tick end", (left - 8.0, y + 4.0)))
    }

    /// Lines at the ticks: from where to where, the label's class, and its place.
    fn grid(&self, at: impl Fn(f64) -> (Point, Point, &'static str, Point)) -> Markup {
        let ticks = self.scale.ticks().into_iter();
        let placed = ticks.filter_map(|tick| Some((at(self.place(tick.value)?), tick.label)));
        html! {
            @for ((from, to, class, (x, y)), label) in placed {
                @match label {
                    Some(label) => { (line("grid", from, to)) (text(class, x, y, &label)) }
                    None => (line("grid minor", from, to)),
                }
            }
        }
    }
}

/// The class of a colour; those of the second round look different from those of the first.
fn colour_class(colour: usize) -> String {
    let again = if colour >= COLOURS { " again" } else { "" };
    format!("c{}{again}", colour % COLOURS)
}

fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}

/// `text`, cut where there is no room for more of it. The table beside the plot has all of it.
fn brief(text: &str) -> String {
    match text.char_indices().nth(LABEL_CHARACTERS_MAX - 1) {
        Some((cut, last)) if cut + last.len_utf8() < text.len() => {
            format!("{}…", text[..cut].trim_end())
        }
        _ => text.to_owned(),
    }
}
