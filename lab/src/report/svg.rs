//! Plots as SVG, to stand inside the page: its style sheet colours them, light and dark.

mod bars;
mod lines;

use std::fmt::Write;

use super::Plot;
use super::html::escape;
use super::plot::COLOURS;
use super::scale::{Scale, Tick};

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
pub(super) fn draw(plot: &Plot, id: &str) -> String {
    let Drawing {
        height,
        description,
        body,
    } = drawing(plot);
    format!(
        "<svg class=\"plot\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\" \
         viewBox=\"0 0 {WIDTH} {height:.0}\">\n<title id=\"{id}-t\">{title}</title>\n\
         <desc id=\"{id}-d\">{description}</desc>\n{body}</svg>\n",
        title = escape(plot.title()),
        description = escape(&description),
    )
}

/// A file of its own: with its title, the rules in `style`, and paper to stand on.
pub(super) fn draw_alone(plot: &Plot, style: &str) -> String {
    let Drawing {
        height,
        description,
        body,
    } = drawing(plot);
    let (left, top) = (-MARGIN, -MARGIN - TITLE_HEIGHT);
    let (width, height) = (WIDTH + 2.0 * MARGIN, height + 2.0 * MARGIN + TITLE_HEIGHT);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" role=\"img\" width=\"{width}\" \
         viewBox=\"{left} {top} {width} {height:.0}\">\n<title>{title}</title>\n\
         <desc>{description}</desc>\n<style>\n{style}</style>\n\
         <rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height:.0}\" \
         fill=\"var(--paper)\"/>\n\
         <text class=\"heading\" x=\"0\" y=\"{baseline}\">{title}</text>\n{body}</svg>\n",
        title = escape(plot.title()),
        description = escape(&description),
        baseline = -TITLE_HEIGHT / 2.0,
    )
}

fn drawing(plot: &Plot) -> Drawing {
    match plot {
        Plot::Bars {
            unit,
            log,
            endless,
            groups,
            ..
        } => bars::draw(unit, *log, endless, groups),
        Plot::Lines {
            x,
            y,
            log_x,
            log_y,
            series,
            ..
        } => lines::draw(
            &lines::Axes {
                x,
                y,
                log_x: *log_x,
                log_y: *log_y,
            },
            series,
        ),
    }
}

struct Drawing {
    height: f64,
    /// The plot in words, for those who do not see it.
    description: String,
    body: String,
}

/// The elements of a drawing, one per line. Coordinates are rounded to a tenth: more is noise.
#[derive(Default)]
struct Canvas {
    body: String,
}

impl Canvas {
    fn text(&mut self, class: &str, x: f64, y: f64, text: &str) {
        let text = escape(text);
        self.push(&format!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>"
        ));
    }

    fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.push(&format!(
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        ));
    }

    fn push(&mut self, element: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.body, "{element}");
    }

    /// Vertical grid lines and, under `bottom`, their labels.
    fn x_axis(&mut self, scale: &Scale, place: impl Fn(f64) -> f64, top: f64, bottom: f64) {
        self.grid(scale, |part| {
            let x = place(part);
            ((x, top), (x, bottom), "tick mid", (x, bottom + 16.0))
        });
    }

    /// Horizontal grid lines and, left of `left`, their labels.
    fn y_axis(&mut self, scale: &Scale, place: impl Fn(f64) -> f64, left: f64, right: f64) {
        self.grid(scale, |part| {
            let y = place(part);
            ((left, y), (right, y), "tick end", (left - 8.0, y + 4.0))
        });
    }

    /// Lines at an axis' ticks: from where to where, the label's class, and its place.
    fn grid(&mut self, scale: &Scale, at: impl Fn(f64) -> (Point, Point, &'static str, Point)) {
        for Tick { value, label } in scale.ticks() {
            let Some((from, to, class, (x, y))) = scale.position(value).map(&at) else {
                continue;
            };
            let Some(label) = label else {
                self.line("grid minor", from, to);
                continue;
            };
            self.line("grid", from, to);
            self.text(class, x, y, &label);
        }
    }
}

type Point = (f64, f64);

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
    if text.chars().count() <= LABEL_CHARACTERS_MAX {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(LABEL_CHARACTERS_MAX - 1).collect();
    cut.truncate(cut.trim_end().len());
    cut.push('…');
    cut
}
