//! Files that are read in place, as memory.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::Path;

use memmap2::{Mmap, UncheckedAdvice};

/// A program's or a library's file, of which only what is looked at is in memory.
#[derive(Debug)]
pub(crate) struct MappedFile(Mmap);

impl MappedFile {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        // SAFETY: the file must not change while it is mapped. Linux refuses to write to a program
        // that runs from a local disk. Whoever overwrites a library in place breaks the code that
        // is loaded from it as well; package managers put a new file in its place.
        unsafe { Mmap::map(&file) }.map(Self)
    }

    /// Has the pages that were looked at leave the process's memory; they are read again when they
    /// are needed.
    pub(crate) fn forget_pages(&self) {
        // SAFETY: the map is never written to, so its pages are those of the file.
        let _ = unsafe { self.0.unchecked_advise(UncheckedAdvice::DontNeed) };
    }
}

impl Deref for MappedFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// How many KiB of what is mapped at an address are in the process's memory.
    fn resident(address: usize) -> u64 {
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let begin = format!("{address:x}-");
        let of_map = maps.lines().skip_while(|line| !line.starts_with(&begin));
        let rss = of_map.skip(1).find_map(|line| line.strip_prefix("Rss:"));
        let rss = rss.unwrap().trim().trim_end_matches(" kB");
        rss.parse().unwrap()
    }

    #[test]
    fn pages_that_were_looked_at_leave() {
        let path = std::env::current_exe().unwrap();
        let file = MappedFile::open(&path).unwrap();
        assert_eq!(&file[1..4], b"ELF");
        let sum = |bytes: &[u8]| bytes.iter().step_by(4096).map(|&it| u64::from(it)).sum();
        let before: u64 = sum(&file);
        let address = file.as_ptr() as usize;
        assert!(resident(address) >= file.len() as u64 / 1024);
        file.forget_pages();
        assert_eq!(resident(address), 0);
        assert_eq!(before, sum(&file), "they are read again");
        assert!(MappedFile::open(Path::new("/proc/self/none")).is_err());
    }
}
