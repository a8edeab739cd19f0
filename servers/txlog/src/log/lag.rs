//! How far consumers are behind, for metrics. Pure.

use super::cursors::Places;
use crate::figures::{ConsumerFigures, Lag};

/// How many cursors of a log metrics show: each is a series or two in whatever keeps them.
const SHOWN_MAX: usize = 64;

/// Where consumers are in a log with this epoch, and these numbers of the oldest record and of the
/// next one.
pub(super) fn figures(places: &Places, epoch: u64, (first, next): (u64, u64)) -> ConsumerFigures {
    let mut figures = ConsumerFigures::default();
    for (name, place) in places {
        // 0 is whatever is the oldest.
        let is_kept = place.sequence == 0 || place.sequence >= first;
        figures.lost += u64::from(place.epoch != epoch || !is_kept);
        if place.epoch != epoch {
            continue;
        }
        let records = next.saturating_sub(place.sequence.max(first));
        figures.lag_max = figures.lag_max.max(records);
        if figures.shown.len() == SHOWN_MAX {
            figures.left_out += 1;
            continue;
        }
        figures.shown.push(Lag {
            name: name.clone(),
            sequence: place.sequence,
            records,
        });
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::super::cursors::Place;
    use super::*;

    fn place(epoch: u64, sequence: u64) -> Place {
        Place { epoch, sequence }
    }

    #[test]
    fn a_lag_is_what_a_consumer_has_yet_to_read() {
        let places = Places::from([
            ("done".to_owned(), place(2, 31)),
            ("earlier".to_owned(), place(1, 30)),
            ("from-oldest".to_owned(), place(2, 0)),
            ("trimmed".to_owned(), place(2, 10)),
            ("two".to_owned(), place(2, 29)),
        ]);
        let figures = figures(&places, 2, (11, 31));
        let shown: Vec<_> = figures
            .shown
            .iter()
            .map(|it| (&*it.name, it.records))
            .collect();
        let expected = [
            ("done", 0),
            ("from-oldest", 20),
            ("trimmed", 20),
            ("two", 2),
        ];
        assert_eq!(shown, expected);
        assert_eq!(
            (figures.lag_max, figures.lost, figures.left_out),
            (20, 2, 0)
        );
    }

    #[test]
    fn no_more_cursors_are_shown_than_may_be_and_the_others_count() {
        let name = |number: usize| (format!("c{number:04}"), place(1, 3));
        let mut places: Places = (0..SHOWN_MAX + 8).map(name).collect();
        places.insert("d".to_owned(), place(1, 0));
        let mut figures = figures(&places, 1, (1, 7));
        assert_eq!((figures.shown.len(), figures.left_out), (SHOWN_MAX, 9));
        assert_eq!(figures.shown[0].name, "c0000");
        figures.limit(10);
        let left_out = SHOWN_MAX as u64 - 10 + 9;
        assert_eq!((figures.shown.len(), figures.left_out), (10, left_out));
        assert_eq!(figures.lag_max, 6);
    }
}
