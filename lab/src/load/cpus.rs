//! Lists of processors, as in `0,2-3`.

use std::str::FromStr;

use crate::serve::joined;

/// Processors by number, in ascending order, each once, at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CpuList(pub(crate) Vec<usize>);

/// One more than the highest number that the system call for pinning can say.
const CPUS_MAX: usize = 1_024;

impl FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |part: &str| match part.trim().parse::<usize>() {
            Ok(cpu) if cpu < CPUS_MAX => Ok(cpu),
            _ => Err(format!(
                "`{part}` is not the number of a processor (a list reads `0,2-3`)"
            )),
        };
        let mut cpus = Vec::new();
        for part in text.split(',') {
            match part.split_once('-') {
                Some((first, last)) => cpus.extend(number(first)?..=number(last)?),
                None => cpus.push(number(part)?),
            }
        }
        cpus.sort_unstable();
        cpus.dedup();
        if cpus.is_empty() {
            Err(format!("`{text}` names no processor"))
        } else {
            Ok(CpuList(cpus))
        }
    }
}

impl std::fmt::Display for CpuList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&joined(&self.0, ","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_numbers_and_ranges() {
        assert_eq!("3,0-1,1".parse(), Ok(CpuList(vec![0, 1, 3])));
        assert_eq!("2".parse(), Ok(CpuList(vec![2])));
        for wrong in ["", "a", "1-", "3-1", "9999", "1,,2"] {
            assert!(wrong.parse::<CpuList>().is_err(), "{wrong:?}");
        }
        assert_eq!(CpuList(vec![0, 2, 3]).to_string(), "0,2,3");
    }
}
