//! The spans of `tracing` in which polls of one function were found.

use std::fmt;

use super::HogFunction;
use crate::stats::since::Subtract;

/// So many are kept for a function, each of which may have 256 bytes.
pub(super) const SPANS_MAX: usize = 4;

/// Polls that were found in the same spans of `tracing`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
#[non_exhaustive]
pub struct HogSpans {
    /// The spans, as [`runtime::within`](crate::runtime::within) prints them.
    pub within: String,
    /// How many polls.
    pub count: u64,
}

impl HogFunction {
    /// In which spans of `tracing` its polls were found, in words: `request{uri=/a} 30 times,
    /// request{uri=/b} 4 times, and 12 others`. No count follows the one that stands for all polls.
    /// `None` if none were in a span that a layer [tells](crate::runtime::within).
    pub fn within(&self) -> Option<String> {
        let (first, rest) = self.spans.split_first()?;
        if rest.is_empty() && first.count == self.count {
            return Some(first.within.clone());
        }
        let mut words = first.to_string();
        for spans in rest {
            words.push_str(&format!(", {spans}"));
        }
        if self.spans_others > 0 {
            words.push_str(&format!(", and {} others", self.spans_others));
        }
        Some(words)
    }

    /// One more poll was found in these spans. If there is no room, the rarest ones give place:
    /// those that come often stay, and what is new has a chance.
    pub(super) fn count_spans(&mut self, within: &str) {
        if let Some(known) = self.spans.iter_mut().find(|it| it.within == within) {
            known.count += 1;
        } else {
            if self.spans.len() >= SPANS_MAX {
                // Of several, the one that came first.
                let rarest = self.spans.iter().map(|it| it.count).min();
                let rarest = self.spans.iter().position(|it| Some(it.count) == rarest);
                let gone = rarest.map(|at| self.spans.remove(at));
                self.spans_others += gone.map_or(0, |it| it.count);
            }
            self.spans.push(HogSpans {
                within: within.to_owned(),
                count: 1,
            });
        }
        self.spans.sort_by_key(|it| std::cmp::Reverse(it.count));
    }

    /// Adds what another runtime found in the same function.
    #[cfg(any(feature = "drop-in", test))]
    pub(crate) fn add_spans(&mut self, spans: Vec<HogSpans>, others: u64) {
        self.spans_others = self.spans_others.saturating_add(others);
        for row in spans {
            match self.spans.iter_mut().find(|it| it.within == row.within) {
                Some(known) => known.count = known.count.saturating_add(row.count),
                None => self.spans.push(row),
            }
        }
        self.spans.sort_by_key(|it| std::cmp::Reverse(it.count));
        let beyond = self.spans.drain(SPANS_MAX.min(self.spans.len())..);
        self.spans_others += beyond.map(|it| it.count).sum::<u64>();
    }

    fn in_spans(&self) -> u64 {
        let counts = self.spans.iter().map(|it| it.count);
        counts.fold(self.spans_others, u64::saturating_add)
    }

    /// Leaves what came since an earlier snapshot. All counts add up to what they have grown by.
    pub(in crate::stats) fn subtract_spans(&mut self, earlier: &Self) {
        let grown = self.in_spans().saturating_sub(earlier.in_spans());
        for row in &mut self.spans {
            let before = earlier.spans.iter().find(|it| it.within == row.within);
            row.count.subtract(&before.map_or(0, |it| it.count));
        }
        self.spans.retain(|it| it.count > 0);
        self.spans.sort_by_key(|it| std::cmp::Reverse(it.count));
        self.spans_others = 0;
        self.spans_others = grown.saturating_sub(self.in_spans());
    }
}

/// Prints as `request{uri=/a} 30 times`.
impl fmt::Display for HogSpans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = if self.count == 1 { "time" } else { "times" };
        write!(f, "{} {} {times}", self.within, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(polls: &[(&str, usize)]) -> HogFunction {
        let mut row = HogFunction::default();
        for (within, count) in polls {
            for _ in 0..*count {
                row.count += 1;
                row.count_spans(within);
            }
        }
        row
    }

    fn words(row: &HogFunction) -> String {
        row.within().unwrap_or_default()
    }

    #[test]
    fn each_of_a_few_spans_is_counted() {
        assert_eq!(HogFunction::default().within(), None);
        assert_eq!(words(&found(&[("a", 3)])), "a");
        let mut row = found(&[("a", 1), ("b", 3)]);
        assert_eq!(words(&row), "b 3 times, a 1 time");
        row = found(&[("a", 3)]);
        row.count += 1;
        assert_eq!(words(&row), "a 3 times", "one was in no span");
    }

    #[test]
    fn beyond_a_few_the_rarest_are_others_and_the_sum_stays() {
        let mut polls = vec![("often", 30)];
        let rare: Vec<String> = (0..1000).map(|number| format!("rare{number}")).collect();
        polls.extend(rare.iter().map(|rare| (rare.as_str(), 1)));
        polls.push(("late", 9));
        let row = found(&polls);
        assert_eq!(row.spans.len(), SPANS_MAX);
        assert!(
            words(&row).starts_with("often 30 times, late 9 times, "),
            "{row:?}"
        );
        assert!(words(&row).ends_with(", and 998 others"), "{row:?}");
        assert_eq!(row.in_spans(), 1039);
    }

    #[test]
    fn spans_of_several_runtimes_are_added_up() {
        let mut row = found(&[("a", 3), ("b", 2), ("c", 2), ("d", 2)]);
        let other = found(&[("e", 9), ("a", 1), ("f", 1)]);
        row.count += other.count;
        row.add_spans(other.spans, other.spans_others);
        assert_eq!(
            words(&row),
            "e 9 times, a 4 times, b 2 times, c 2 times, and 3 others"
        );
        assert_eq!(row.in_spans(), row.count);
    }

    #[test]
    fn a_difference_has_what_came_in_between() {
        let before = [("a", 3), ("b", 2), ("c", 1), ("d", 1)];
        let mut after = before.to_vec();
        after.extend([("b", 5), ("e", 2)]);
        let (before, mut row) = (found(&before), found(&after));
        row.count -= before.count;
        row.subtract_spans(&before);
        assert_eq!(words(&row), "b 5 times, e 2 times");
        let same = row.clone();
        row.subtract_spans(&same);
        assert_eq!((row.within(), row.spans_others), (None, 0));
    }
}
