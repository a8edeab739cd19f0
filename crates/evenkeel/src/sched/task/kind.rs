//! What alike tasks have in common: their spawn site, the type of their future, their name and
//! their class.

use std::any::TypeId;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::Location;

use crate::class::Class;

/// The type of a task's future. Functions give it, as it is needed for few tasks.
pub(crate) struct FutureType {
    id: fn() -> TypeId,
    name: fn() -> &'static str,
}

impl FutureType {
    pub(crate) const fn of<F: 'static>() -> Self {
        Self {
            id: TypeId::of::<F>,
            name: std::any::type_name::<F>,
        }
    }

    /// As the compiler prints it, without the wrappers that every task of such a program has.
    pub(crate) fn name(&self) -> &'static str {
        let name = (self.name)();
        #[cfg(all(feature = "console", not(evenkeel_loom)))]
        let name = inside(name, super::console::AROUND);
        #[cfg(feature = "drop-in")]
        let name = inside(name, "tokio::evenkeel::scheduler::Polled<");
        name
    }
}

/// What a generic type, known by the beginning of its name, has inside.
#[cfg(any(feature = "console", feature = "drop-in"))]
fn inside(name: &'static str, wrapper: &str) -> &'static str {
    let inside = name.strip_prefix(wrapper);
    inside
        .and_then(|rest| rest.strip_suffix('>'))
        .unwrap_or(name)
}

/// Compared by id and not by address: one type may have several of these.
impl PartialEq for FutureType {
    fn eq(&self, other: &Self) -> bool {
        (self.id)() == (other.id)()
    }
}

impl Eq for FutureType {}

impl fmt::Debug for FutureType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) spawned_at: &'static Location<'static>,
    pub(crate) future: &'static FutureType,
    pub(crate) name: Option<&'static str>,
    pub(crate) class: Class,
}

impl Kind {
    pub(crate) fn in_class(self, class: Class) -> Self {
        Self { class, ..self }
    }

    /// A number that tells kinds apart, as far as 64 bits can. Never 0.
    pub(crate) fn key(&self) -> u64 {
        let mut fold = Fold(0);
        (std::ptr::from_ref(self.spawned_at).addr()).hash(&mut fold);
        (self.future.id)().hash(&mut fold);
        self.name.hash(&mut fold);
        self.class.index().hash(&mut fold);
        fold.finish() | 1
    }
}

/// A fast hasher that resists no attack: all that is hashed comes from the program's own source. It
/// runs once for each task of a program that has hogs; std's hasher takes four times as long.
struct Fold(u64);

impl Hasher for Fold {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_ne_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        // The odd number nearest to 2^64 over the golden ratio (Fibonacci hashing).
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_a_kind_tells_it_from_others() {
        static TYPES: [FutureType; 2] = [FutureType::of::<u8>(), FutureType::of::<u16>()];
        let (here, there) = (Location::caller(), Location::caller());
        let mut kinds = Vec::new();
        for spawned_at in [here, there] {
            for future in &TYPES {
                for name in [None, Some(""), Some("one"), Some("two")] {
                    for class in [Class::URGENT, Class::NORMAL] {
                        kinds.push(Kind {
                            spawned_at,
                            future,
                            name,
                            class,
                        });
                    }
                }
            }
        }
        let mut keys: Vec<u64> = kinds.iter().map(Kind::key).collect();
        assert!(keys.iter().all(|&key| key != 0));
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), kinds.len());
    }

    #[test]
    fn names_are_alike_by_their_letters_and_types_by_what_they_are() {
        static TYPES: [FutureType; 2] = [FutureType::of::<u8>(), FutureType::of::<u8>()];
        let kind = |name: String, future| Kind {
            spawned_at: Location::caller(),
            future,
            name: Some(name.leak()),
            class: Class::NORMAL,
        };
        let (one, other) = (
            kind("name".to_owned(), &TYPES[0]),
            kind("name".to_owned(), &TYPES[1]),
        );
        assert_eq!(one, other);
        assert_eq!(one.key(), other.key());
    }
}
