//! Bars: horizontal, so that names and values stand beside them in full.

use std::collections::HashMap;

use maud::{Markup, html};

use super::{At, Axis, Drawing, WIDTH, brief, colour_class, line, text, text_width};
use crate::report::number::{NARROW_SPACE, printable, short};
use crate::report::plot::{Bars, Lists, colours, is_known, is_ours, unique};
use crate::report::scale::{Scale, Zero};

const TOP: f64 = 8.0;
const BAR: f64 = 15.0;
const BAR_PITCH: f64 = 20.0;
const HEADING: f64 = 21.0;
const GROUP_GAP: f64 = 13.0;
/// Room for the value beside the longest bar.
const RIGHT: f64 = WIDTH - 84.0;
/// A page is no place for more; the table has them all.
const BARS_MAX: usize = 300;

struct Frame<'a> {
    /// What a bar without an end is labelled; empty: ∞.
    endless: &'a str,
    /// Whether each group is one bar, named by its group: a heading above each would only be noise.
    alone: bool,
    axis: Axis,
    /// Where bars start: zero, or the low end of a logarithmic axis.
    base: f64,
    /// By name or, where each group is one bar, by group if one has a colour of its own.
    colours: HashMap<&'a str, usize>,
}

pub(super) fn draw(of: &Bars) -> Drawing {
    let (unit, groups) = (&of.unit, &of.groups);
    let bars = groups.iter().flat_map(|(_, bars)| bars);
    let values = bars.map(|(_, value)| *value);
    let (scale, named) = if of.log {
        let scale = Scale::log_bars(values);
        let from = short(scale.low, NARROW_SPACE);
        (scale, format!("{unit}, logarithmic: bars start at {from}"))
    } else {
        (Scale::linear(values, Zero::Shown), unit.clone())
    };
    let frame = Frame::new(of, scale);
    let (bars, bottom) = frame.groups(groups);
    let body = html! {
        (frame.axis.columns(TOP, bottom))
        (line("base", (frame.base, TOP), (frame.base, bottom)))
        (text("axis end", RIGHT, bottom + 35.0, &named))
        @for bar in bars { (bar) }
    };
    Drawing {
        height: bottom + 42.0,
        description: describe(of),
        body,
    }
}

impl<'a> Frame<'a> {
    fn new(of: &'a Bars, scale: Scale) -> Frame<'a> {
        let groups = &of.groups;
        let alone = groups.iter().all(|(_, bars)| bars.len() <= 1);
        let by_group = alone && groups.iter().any(|(group, _)| is_known(group));
        let named = |by_group: bool| {
            let of = move |group: &'a str, bar: &'a str| if by_group { group } else { bar };
            let groups = groups.iter();
            groups.flat_map(move |(group, bars)| bars.iter().map(move |(bar, _)| of(group, bar)))
        };
        let names = unique(named(by_group));
        let widths = named(alone).map(|label| text_width(&brief(label)));
        let axis = Axis {
            scale,
            low: widths.fold(40.0, f64::max) + 12.0,
            high: RIGHT,
        };
        Frame {
            endless: &of.endless,
            alone,
            base: axis.place(0.0).unwrap_or(axis.low),
            axis,
            colours: names.iter().copied().zip(colours(&names)).collect(),
        }
    }

    /// All groups, and where they end.
    fn groups(&self, groups: &Lists<String>) -> (Vec<Markup>, f64) {
        let mut drawn = Vec::new();
        let (mut y, mut bars) = (TOP, 0);
        for (index, (group, members)) in groups.iter().enumerate() {
            if bars >= BARS_MAX {
                let more = "More in the table: only the first bars are drawn.";
                drawn.push(text("muted", 0.0, y + 14.0, more));
                return (drawn, y + BAR_PITCH);
            }
            if !self.alone {
                y += if index == 0 { 0.0 } else { GROUP_GAP };
                drawn.push(text("heading", 0.0, y + 13.0, group));
                y += HEADING;
            }
            for (name, value) in members.iter().take(BARS_MAX) {
                let colour = self.colours.get(name.as_str());
                let colour = colour.or_else(|| self.colours.get(group.as_str()));
                let label = if self.alone { group } else { name };
                drawn.push(self.bar(y, label, *value, colour.copied().unwrap_or(0)));
                y += BAR_PITCH;
                bars += 1;
            }
        }
        if bars == 0 {
            drawn.push(text("muted", 0.0, y + 14.0, "Nothing was measured."));
            y += BAR_PITCH;
        }
        (drawn, y + 4.0)
    }

    fn bar(&self, y: f64, label: &str, value: f64, colour: usize) -> Markup {
        let (base, baseline) = (self.base, y + 11.5);
        let strong = if is_ours(label) { " ours" } else { "" };
        let class = format!("fill {}", colour_class(colour));
        // Of a bar without an end there is an arrow head: it goes on past the axis.
        let is_endless = value == f64::INFINITY;
        let (end, beyond) = match is_endless {
            true => (Some(RIGHT), 14.0),
            false => (self.axis.place(value), 6.0),
        };
        let shown = match self.endless {
            endless if is_endless && !endless.is_empty() => endless.to_owned(),
            _ => short(value, NARROW_SPACE),
        };
        let missing = match value.is_nan() {
            true => "no value".to_owned(),
            false => format!("{shown} (no length)"),
        };
        html! {
            (text(&format!("name end{strong}"), self.axis.low - 9.0, baseline, &brief(label)))
            @if let Some(end) = end {
                rect class=(class) x=(At(base.min(end))) y=(At(y))
                    width=(At((end - base).abs())) height=(At(BAR)) {
                    title { (printable(label)) ": " (shown) }
                }
                @if is_endless {
                    path class=(class) d=(format!(
                        "M{end:.1} {y:.1}L{:.1} {:.1}L{end:.1} {:.1}Z",
                        end + 10.0, y + BAR / 2.0, y + BAR,
                    )) {}
                }
                (text(&format!("value{strong}"), base.max(end) + beyond, baseline, &shown))
            } @else {
                (text("muted", base + 6.0, baseline, &missing))
            }
        }
    }
}

fn describe(of: &Bars) -> String {
    let axis = ["", ", on a logarithmic axis"][usize::from(of.log)];
    let group = |(group, bars): &(String, Vec<(String, f64)>)| {
        let value = |(name, value): &(String, f64)| format!("{name} {}", short(*value, ' '));
        let values: Vec<String> = bars.iter().take(8).map(value).collect();
        format!(" {group}: {}.", values.join(", "))
    };
    let (unit, groups) = (&of.unit, of.groups.iter().take(12));
    let groups: String = groups.map(group).collect();
    format!("Bars in {unit}{axis}.{groups} The table that follows has every number.")
}
