//! Classes that a program defines once, for all of its runtimes.
//!
//! A runtime that Tokio's builder makes has no builder of ours that could add classes to it. The
//! definitions end with the first builder, so a class has the same place in every runtime.

use super::{Class, ClassConfig, ClassError, ClassTable};
use crate::sync::Mutex;

static DEFINITIONS: Mutex<Definitions> = Mutex::new(Definitions::new());

/// The classes that every new runtime of the process has.
pub(crate) fn table() -> ClassTable {
    DEFINITIONS.lock().take()
}

impl Class {
    /// Adds a class to every runtime of this process, beside the three built-in ones. To be called
    /// before a runtime is built. The class is valid in all of them, also in those that Tokio's
    /// builder makes in a program built by `cargo evenkeel`.
    ///
    /// To add a class to one runtime that the program builds itself, use
    /// [`Builder::class`](crate::runtime::Builder::class).
    ///
    /// # Errors
    ///
    /// There is a class of this name; there are 64 classes; a name or setting is invalid; or there
    /// is a [`Builder`](crate::runtime::Builder) or a runtime already, which would lack the class.
    ///
    /// # Examples
    ///
    /// Attributes such as `#[tokio::main]` build the runtime before they call the function. So
    /// `main` itself is an ordinary function:
    ///
    /// ```
    /// use evenkeel::{Class, ClassConfig};
    ///
    /// fn main() -> Result<(), Box<dyn std::error::Error>> {
    ///     let video = Class::define("video", ClassConfig::new().share(40))?;
    ///     serve(video);
    ///     Ok(())
    /// }
    ///
    /// #[tokio::main]
    /// async fn serve(video: Class) {
    ///     // evenkeel_tower::ClassLayer::new(video), evenkeel::spawn_in(video, ...)
    /// }
    /// ```
    pub fn define(name: &str, config: ClassConfig) -> Result<Class, ClassError> {
        DEFINITIONS.lock().add(name, config)
    }
}

#[derive(Debug)]
struct Definitions {
    /// `None` as long as there are only the built-in classes.
    table: Option<ClassTable>,
    /// Set by the first [`take`](Self::take), and never cleared.
    is_taken: bool,
}

impl Definitions {
    const fn new() -> Self {
        Self {
            table: None,
            is_taken: false,
        }
    }

    fn add(&mut self, name: &str, config: ClassConfig) -> Result<Class, ClassError> {
        let mut table = self.table.clone().unwrap_or_default();
        if table.find(name).is_some() {
            return Err(ClassError::Defined(name.to_owned()));
        }
        if self.is_taken {
            return Err(ClassError::TooLate(name.to_owned()));
        }
        table.set(name, config)?;
        let added = Class::at(table.len() - 1);
        self.table = Some(table);
        Ok(added)
    }

    fn take(&mut self) -> ClassTable {
        self.is_taken = true;
        self.table.clone().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_defined_once_and_has_its_place() {
        let mut definitions = Definitions::new();
        let config = ClassConfig::new().share(7);
        let video = definitions.add("video", config).unwrap();
        let audio = definitions.add("audio", ClassConfig::new()).unwrap();
        assert_eq!((video.index(), audio.index()), (3, 4));
        for name in ["video", "bulk"] {
            let twice = definitions.add(name, ClassConfig::new());
            assert_eq!(twice, Err(ClassError::Defined(name.into())));
        }
        let table = definitions.take();
        assert_eq!((table.find("video"), table.len()), (Some(video), 5));
        assert_eq!(table.rows[video.index()].terms.share, 7);
    }

    #[test]
    fn what_is_refused_defines_nothing() {
        let mut definitions = Definitions::new();
        let config = ClassConfig::new();
        let share = definitions.add("video", config.share(0));
        assert_eq!(share, Err(ClassError::Share(0)));
        let name = definitions.add("two words", config);
        assert!(matches!(name, Err(ClassError::Name(_))));
        for number in 0..61 {
            definitions.add(&format!("own-{number}"), config).unwrap();
        }
        let one_more = definitions.add("one-more", config);
        assert!(matches!(one_more, Err(ClassError::TooMany { .. })));
        assert_eq!(definitions.take().len(), 64);
    }

    #[test]
    fn nothing_is_defined_once_a_builder_has_the_classes() {
        let mut definitions = Definitions::new();
        definitions.add("video", ClassConfig::new()).unwrap();
        assert_eq!(definitions.take().len(), 4);
        let late = definitions.add("audio", ClassConfig::new());
        assert_eq!(late, Err(ClassError::TooLate("audio".into())));
        assert_eq!(definitions.take().len(), 4);
    }
}
