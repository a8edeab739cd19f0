//! What is kept of hogs' stacks: functions, and whole stacks for flame graphs.

use std::collections::HashMap;
use std::time::Duration;

use crate::class::Class;

use super::naming::Name;
use super::{HogFunction, HogProfile};

/// How many functions have rows of their own, and how many stacks. What comes beyond is added up in
/// a row [`OTHERS`]: of functions, in one for each class.
const FUNCTIONS_MAX: usize = 256;
const STACKS_MAX: usize = 1024;
const OTHERS: &str = "(others)";

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Table {
    functions: HashMap<(Name, Class), HogFunction>,
    /// Functions, the outermost first, separated by `;`.
    stacks: HashMap<String, Duration>,
}

impl Table {
    /// The row of a function.
    pub(super) fn row(&mut self, name: Name, class: Class) -> &mut HogFunction {
        let key = (name, class);
        let is_full = self.functions.len() >= FUNCTIONS_MAX && !self.functions.contains_key(&key);
        let (mut name, class) = key;
        if is_full {
            name = Name {
                function: OTHERS.to_owned(),
                callee: None,
            };
        }
        let row = self.functions.entry((name.clone(), class));
        row.or_insert_with(|| HogFunction {
            function: name.function,
            callee: name.callee,
            class,
            ..HogFunction::default()
        })
    }

    /// Adds to the time of a stack.
    pub(super) fn add(&mut self, stack: &str, time: Duration) {
        let is_new = !self.stacks.contains_key(stack);
        let stack = if is_new && self.stacks.len() >= STACKS_MAX {
            OTHERS
        } else {
            stack
        };
        *self.stacks.entry(stack.to_owned()).or_default() += time;
    }

    /// Has the functions of another table.
    pub(super) fn copy_functions(&mut self, other: &Self) {
        self.functions.clone_from(&other.functions);
    }

    /// Has the stacks of another table.
    pub(super) fn copy_stacks(&mut self, other: &Self) {
        self.stacks.clone_from(&other.stacks);
    }

    /// The functions, in no order.
    pub(super) fn functions(&self) -> Vec<HogFunction> {
        self.functions.values().cloned().collect()
    }

    pub(super) fn profile(&self) -> HogProfile {
        let mut stacks: Vec<_> = (self.stacks.iter())
            .map(|(stack, &time)| (stack.clone(), time))
            .collect();
        stacks.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        HogProfile { stacks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> Name {
        Name {
            function: format!("app::f{number}"),
            callee: None,
        }
    }

    #[test]
    fn beyond_its_limits_the_table_adds_up() {
        let mut table = Table::default();
        for number in 0..2 * STACKS_MAX {
            let class = [Class::BULK, Class::URGENT][number % 2];
            table.row(name(number), class).count += 1;
            table.add(&format!("app::f{number}"), Duration::from_millis(1));
        }
        let functions = table.functions();
        assert_eq!(functions.len(), FUNCTIONS_MAX + 2, "others of two classes");
        for class in [Class::BULK, Class::URGENT] {
            let of_class = functions.iter().filter(|row| row.class == class);
            let sum: u64 = of_class.map(|row| row.count).sum();
            assert_eq!(sum, STACKS_MAX as u64);
        }
        let profile = table.profile();
        assert_eq!(profile.stacks.len(), STACKS_MAX + 1);
        assert_eq!(profile.stacks[0].0, OTHERS);
        let sum: Duration = profile.stacks.iter().map(|stack| stack.1).sum();
        assert_eq!(sum, Duration::from_millis(2 * STACKS_MAX as u64));
    }
}
