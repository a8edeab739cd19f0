//! Bars: horizontal, so that names and values stand beside them in full.

use super::{Canvas, Drawing, WIDTH, brief, colour_class, text_width};
use crate::report::html::escape;
use crate::report::number::{NARROW_SPACE, short};
use crate::report::plot::{colours, is_ours};
use crate::report::scale::{Scale, Zero};

const BAR: f64 = 15.0;
const BAR_PITCH: f64 = 20.0;
const HEADING: f64 = 21.0;
const GROUP_GAP: f64 = 13.0;
/// Room for the value beside the longest bar.
const RIGHT: f64 = 84.0;
/// A page is no place for more; the table has them all.
const BARS_MAX: usize = 300;

type Groups = [(String, Vec<(String, f64)>)];

struct Frame {
    left: f64,
    right: f64,
    scale: Scale,
    /// Where bars start: zero, or the low end of a logarithmic axis.
    base: f64,
}

pub(super) fn draw(unit: &str, log: bool, groups: &Groups) -> Drawing {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in groups.iter().flat_map(|(_, bars)| bars) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let colours = colours(&names);
    let colour = |name: &str| {
        let index = names.iter().position(|known| *known == name);
        index
            .and_then(|index| colours.get(index))
            .copied()
            .unwrap_or(0)
    };
    let values = groups
        .iter()
        .flat_map(|(_, bars)| bars)
        .map(|(_, value)| *value);
    let scale = if log {
        Scale::log_bars(values)
    } else {
        Scale::linear(values, Zero::Shown)
    };
    // A group of one is named by its group: a heading above each bar would only be noise.
    let alone = groups.iter().all(|(_, bars)| bars.len() <= 1);
    let labels = groups.iter().flat_map(|(group, bars)| {
        bars.iter()
            .map(move |(name, _)| if alone { group.as_str() } else { name.as_str() })
    });
    let label_width = labels
        .map(|label| text_width(&brief(label)))
        .fold(40.0, f64::max);
    let left = label_width + 12.0;
    let right = WIDTH - RIGHT;
    let base = left + scale.position(0.0).unwrap_or(0.0) * (right - left);
    let frame = Frame {
        left,
        right,
        scale,
        base,
    };

    let mut bars = Canvas::default();
    let top = 8.0;
    let (mut y, mut drawn) = (top, 0);
    for (index, (group, members)) in groups.iter().enumerate() {
        if drawn >= BARS_MAX {
            bars.text(
                "muted",
                0.0,
                y + 14.0,
                "More in the table: only the first bars are drawn.",
            );
            y += BAR_PITCH;
            break;
        }
        if !alone {
            y += if index == 0 { 0.0 } else { GROUP_GAP };
            bars.text("heading", 0.0, y + 13.0, group);
            y += HEADING;
        }
        for (name, value) in members {
            let label = if alone { group } else { name };
            frame.bar(
                &mut bars,
                y,
                label,
                *value,
                colour(name),
                is_ours(label) || is_ours(name),
            );
            y += BAR_PITCH;
            drawn += 1;
        }
    }
    if drawn == 0 {
        bars.text("muted", 0.0, y + 14.0, "Nothing was measured.");
        y += BAR_PITCH;
    }
    let bottom = y + 4.0;
    let mut canvas = Canvas::default();
    frame.axis(&mut canvas, unit, log, top, bottom);
    canvas.push(bars.body.trim_end());
    Drawing {
        height: bottom + 42.0,
        description: describe(unit, log, groups),
        body: canvas.body,
    }
}

impl Frame {
    fn place(&self, part: f64) -> f64 {
        self.left + part * (self.right - self.left)
    }

    fn axis(&self, canvas: &mut Canvas, unit: &str, log: bool, top: f64, bottom: f64) {
        canvas.x_axis(&self.scale, |part| self.place(part), top, bottom);
        canvas.line("base", (self.base, top), (self.base, bottom));
        let title = if log {
            let from = short(self.scale.low, NARROW_SPACE);
            format!("{unit}, logarithmic: bars start at {from}")
        } else {
            unit.to_owned()
        };
        canvas.text("axis end", self.right, bottom + 35.0, &title);
    }

    fn bar(&self, canvas: &mut Canvas, y: f64, label: &str, value: f64, colour: usize, ours: bool) {
        let (baseline, strong) = (y + 11.5, if ours { " ours" } else { "" });
        canvas.text(
            &format!("name end{strong}"),
            self.left - 9.0,
            baseline,
            &brief(label),
        );
        let shown = short(value, NARROW_SPACE);
        let place = if value == f64::INFINITY {
            Some(1.0)
        } else {
            self.scale.position(value)
        };
        let Some(part) = place else {
            let why = if value.is_nan() {
                "no value".to_owned()
            } else {
                format!("{shown} (no length)")
            };
            canvas.text("muted", self.base + 6.0, baseline, &why);
            return;
        };
        let end = self.place(part);
        let (from, width) = (self.base.min(end), (end - self.base).abs());
        let class = colour_class(colour);
        canvas.push(&format!(
            "<rect class=\"fill {class}\" x=\"{from:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
             height=\"{BAR:.1}\"><title>{}: {shown}</title></rect>",
            escape(label)
        ));
        let mut beside = self.base.max(end) + 6.0;
        if value == f64::INFINITY {
            // An arrow head: the bar goes on past the axis.
            let (tip, middle, low) = (end + 10.0, y + BAR / 2.0, y + BAR);
            canvas.push(&format!(
                "<path class=\"fill {class}\" d=\"M{end:.1} {y:.1}L{tip:.1} {middle:.1}L{end:.1} {low:.1}Z\"/>"
            ));
            beside += 8.0;
        }
        canvas.text(&format!("value{strong}"), beside, baseline, &shown);
    }
}

fn describe(unit: &str, log: bool, groups: &Groups) -> String {
    let axis = if log { ", on a logarithmic axis" } else { "" };
    let mut text = format!("Bars in {unit}{axis}.");
    for (group, bars) in groups.iter().take(12) {
        let values: Vec<String> = bars
            .iter()
            .take(8)
            .map(|(name, v)| format!("{name} {}", short(*v, ' ')))
            .collect();
        text.push_str(&format!(" {group}: {}.", values.join(", ")));
    }
    text.push_str(" The table that follows has every number.");
    text
}
