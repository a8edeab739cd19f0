//! How often a pool may try again: a part of its requests, so that retries cannot multiply the
//! load of servers that fail for it. Knows no clock.

use crate::config::Retries;

/// What one retry costs, in thousandths.
const COST: u64 = 1_000;

/// What is left of the retries.
#[derive(Clone, Debug)]
pub struct Budget {
    left: u64,
    left_max: u64,
    of_request: u64,
}

impl Budget {
    /// With the whole reserve.
    pub fn new(retries: Retries) -> Self {
        let reserve = u64::from(retries.reserve) * COST;
        Self {
            left: reserve,
            left_max: reserve.max(COST),
            of_request: u64::from(retries.budget_percent) * COST / 100,
        }
    }

    /// A request has come, which pays for a part of a retry.
    pub fn earn(&mut self) {
        self.left = (self.left + self.of_request).min(self.left_max);
    }

    /// Pays for a retry, if there is enough.
    #[must_use]
    pub fn spend(&mut self) -> bool {
        let enough = self.left >= COST;
        if enough {
            self.left -= COST;
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_are_a_part_of_the_requests_beyond_the_reserve() {
        let retries = Retries {
            max: 2,
            budget_percent: 20,
            reserve: 3,
        };
        let mut budget = Budget::new(retries);
        let all_fail = |budget: &mut Budget, requests: usize| {
            let mut retried = 0;
            for _ in 0..requests {
                budget.earn();
                retried += usize::from(budget.spend());
            }
            retried
        };
        assert_eq!(all_fail(&mut budget, 100), 3 + 19);
        for _ in 0..1_000 {
            budget.earn();
        }
        assert_eq!(budget.left, 3 * COST, "saved up to the reserve");
    }

    #[test]
    fn a_budget_of_nothing_allows_nothing() {
        let mut budget = Budget::new(Retries {
            max: 2,
            budget_percent: 0,
            reserve: 0,
        });
        budget.earn();
        assert!(!budget.spend());
    }
}
