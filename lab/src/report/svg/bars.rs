//! Bars: horizontal, so that names and values stand beside them in full.

use super::{Canvas, Drawing, WIDTH, brief, colour_class, text_width};
use crate::report::html::escape;
use crate::report::number::{NARROW_SPACE, short};
use crate::report::plot::{colours, is_known, is_ours};
use crate::report::scale::{Scale, Zero};

const TOP: f64 = 8.0;
const BAR: f64 = 15.0;
const BAR_PITCH: f64 = 20.0;
const HEADING: f64 = 21.0;
const GROUP_GAP: f64 = 13.0;
/// Room for the value beside the longest bar.
const RIGHT: f64 = 84.0;
/// A page is no place for more; the table has them all.
const BARS_MAX: usize = 300;

type Groups = [(String, Vec<(String, f64)>)];

struct Frame<'a> {
    /// What a bar without an end is labelled; empty: ∞.
    endless: &'a str,
    left: f64,
    right: f64,
    scale: Scale,
    /// Where bars start: zero, or the low end of a logarithmic axis.
    base: f64,
}

pub(super) fn draw(unit: &str, log: bool, endless: &str, groups: &Groups) -> Drawing {
    // A group of one is named by its group: a heading above each bar would only be noise.
    let alone = groups.iter().all(|(_, bars)| bars.len() <= 1);
    let values = groups
        .iter()
        .flat_map(|(_, bars)| bars)
        .map(|(_, value)| *value);
    let scale = if log {
        Scale::log_bars(values)
    } else {
        Scale::linear(values, Zero::Shown)
    };
    let frame = Frame::new(groups, alone, scale, endless);
    let (bars, bottom) = frame.groups(groups, alone);
    let mut canvas = Canvas::default();
    frame.axis(&mut canvas, unit, log, bottom);
    canvas.push(bars.body.trim_end());
    Drawing {
        height: bottom + 42.0,
        description: describe(unit, log, groups),
        body: canvas.body,
    }
}

/// Which colour a bar has: that of its name or, where each group is one bar, of the group if it
/// is one of those with a colour of their own.
struct Colours<'a> {
    names: Vec<&'a str>,
    colours: Vec<usize>,
    by_group: bool,
}

impl<'a> Colours<'a> {
    fn new(groups: &'a Groups, alone: bool) -> Colours<'a> {
        let by_group = alone && groups.iter().any(|(group, _)| is_known(group));
        let mut names: Vec<&str> = Vec::new();
        for (group, bars) in groups {
            for (name, _) in bars {
                let name = if by_group { group } else { name };
                if !names.contains(&name.as_str()) {
                    names.push(name);
                }
            }
        }
        let colours = colours(&names);
        Colours {
            names,
            colours,
            by_group,
        }
    }

    fn of(&self, group: &str, name: &str) -> usize {
        let name = if self.by_group { group } else { name };
        let index = self.names.iter().position(|known| *known == name);
        index
            .and_then(|index| self.colours.get(index))
            .copied()
            .unwrap_or(0)
    }
}

impl<'a> Frame<'a> {
    fn new(groups: &Groups, alone: bool, scale: Scale, endless: &'a str) -> Frame<'a> {
        let labels = groups.iter().flat_map(|(group, bars)| {
            bars.iter()
                .map(move |(name, _)| if alone { group } else { name })
        });
        let label_width = labels
            .map(|label| text_width(&brief(label)))
            .fold(40.0, f64::max);
        let left = label_width + 12.0;
        let right = WIDTH - RIGHT;
        let base = left + scale.position(0.0).unwrap_or(0.0) * (right - left);
        Frame {
            endless,
            left,
            right,
            scale,
            base,
        }
    }

    /// Draws all groups, and says where they end.
    fn groups(&self, groups: &Groups, alone: bool) -> (Canvas, f64) {
        let colours = Colours::new(groups, alone);
        let mut canvas = Canvas::default();
        let (mut y, mut drawn) = (TOP, 0);
        for (index, (group, members)) in groups.iter().enumerate() {
            if drawn >= BARS_MAX {
                let more = "More in the table: only the first bars are drawn.";
                canvas.text("muted", 0.0, y + 14.0, more);
                return (canvas, y + BAR_PITCH);
            }
            if !alone {
                y += if index == 0 { 0.0 } else { GROUP_GAP };
                canvas.text("heading", 0.0, y + 13.0, group);
                y += HEADING;
            }
            for (name, value) in members.iter().take(BARS_MAX) {
                let label = if alone { group } else { name };
                self.bar(&mut canvas, y, label, *value, colours.of(group, name));
                y += BAR_PITCH;
                drawn += 1;
            }
        }
        if drawn == 0 {
            canvas.text("muted", 0.0, y + 14.0, "Nothing was measured.");
            y += BAR_PITCH;
        }
        (canvas, y + 4.0)
    }

    fn place(&self, part: f64) -> f64 {
        self.left + part * (self.right - self.left)
    }

    fn axis(&self, canvas: &mut Canvas, unit: &str, log: bool, bottom: f64) {
        canvas.x_axis(&self.scale, |part| self.place(part), TOP, bottom);
        canvas.line("base", (self.base, TOP), (self.base, bottom));
        let title = if log {
            let from = short(self.scale.low, NARROW_SPACE);
            format!("{unit}, logarithmic: bars start at {from}")
        } else {
            unit.to_owned()
        };
        canvas.text("axis end", self.right, bottom + 35.0, &title);
    }

    fn bar(&self, canvas: &mut Canvas, y: f64, label: &str, value: f64, colour: usize) {
        let strong = if is_ours(label) { " ours" } else { "" };
        let baseline = y + 11.5;
        canvas.text(
            &format!("name end{strong}"),
            self.left - 9.0,
            baseline,
            &brief(label),
        );
        let shown = match value {
            f64::INFINITY if !self.endless.is_empty() => self.endless.to_owned(),
            _ => short(value, NARROW_SPACE),
        };
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
                "<path class=\"fill {class}\" \
                 d=\"M{end:.1} {y:.1}L{tip:.1} {middle:.1}L{end:.1} {low:.1}Z\"/>"
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
