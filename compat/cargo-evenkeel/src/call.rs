//! A command line of cargo's, read as cargo reads it.

use std::path::PathBuf;

use crate::config::Config;
use crate::error::Error;
use crate::meant;

/// Cargo's own commands that build, or say what would be built.
const BUILDS: [&str; 18] = [
    "b", "bench", "build", "c", "check", "clippy", "d", "doc", "fetch", "fix", "metadata", "r",
    "run", "rustc", "rustdoc", "t", "test", "tree",
];
/// Cargo's own commands that have nothing to do with the graph.
const OTHERS: [&str; 20] = [
    "clean",
    "config",
    "fmt",
    "git-checkout",
    "help",
    "info",
    "init",
    "install",
    "locate-project",
    "login",
    "logout",
    "new",
    "owner",
    "pkgid",
    "read-manifest",
    "report",
    "search",
    "uninstall",
    "verify-project",
    "version",
];
/// Cargo's own commands that write the lock file or publish it.
const OWN_LOCK: [&str; 10] = [
    "add",
    "generate-lockfile",
    "package",
    "publish",
    "remove",
    "rm",
    "update",
    "upgrade",
    "vendor",
    "yank",
];
/// Options that take the next word.
const VALUED: [&str; 25] = [
    "--artifact-dir",
    "--bench",
    "--bin",
    "--branch",
    "--color",
    "--config",
    "--example",
    "--exclude",
    "--features",
    "--filter-platform",
    "--format",
    "--invert",
    "--jobs",
    "--manifest-path",
    "--message-format",
    "--package",
    "--profile",
    "--target",
    "--target-dir",
    "--test",
    "-C",
    "-F",
    "-Z",
    "-j",
    "-p",
];

/// What becomes of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It gets the copy in Tokio's place.
    Builds,
    /// It is cargo's alone.
    Plain,
}

/// A command line, without aliases.
#[derive(Clone, Debug)]
pub struct Call {
    /// Options before the command.
    before: Vec<String>,
    /// Such as `build`.
    pub command: String,
    /// What comes behind it.
    after: Vec<String>,
    /// What the options among these say.
    pub options: Options,
}

/// What concerns more than the one command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// For every call of cargo: which manifest, which configuration, whether there is a network.
    pub common: Vec<String>,
    /// Which features, for calls that resolve.
    pub features: Vec<String>,
    /// What is built for, other than this machine.
    pub platforms: Vec<String>,
    /// Where to build.
    pub target: Option<PathBuf>,
    /// The lock file has to be good as it is.
    pub locked: bool,
    /// Nothing may be fetched.
    pub offline: bool,
    /// The values of `--config`.
    pub config: Vec<String>,
}

impl Call {
    /// Reads the words behind `cargo evenkeel`, and replaces aliases.
    ///
    /// # Errors
    ///
    /// If there is no command, or an alias stands for itself.
    pub fn parse(words: &[String], config: &Config) -> Result<Self, Error> {
        let mut words = words.to_vec();
        // As many as cargo itself would follow in earnest.
        for _ in 0..16 {
            let at = first_positional(&words).ok_or(Error::NoCommand)?;
            let name = words[at].clone();
            let alias = Some(&name).filter(|name| !is_builtin(name));
            let Some(meaning) = alias.and_then(|name| config.alias(name)) else {
                let after = words.split_off(at + 1);
                words.truncate(at);
                let options = Options::read(&words, &name, &after);
                return Ok(Self {
                    before: words,
                    command: name,
                    after,
                    options,
                });
            };
            words.splice(at..=at, meaning);
        }
        Err(Error::NoCommand)
    }

    /// What becomes of it.
    ///
    /// # Errors
    ///
    /// If it has to be refused: it would lose changes to the lock file, or would not hear of the
    /// copy.
    pub fn kind(&self) -> Result<Kind, Error> {
        let is = |list: &[&str]| list.contains(&self.command.as_str());
        if is(&OWN_LOCK) {
            return Err(Error::OwnLock {
                command: self.command.clone(),
            });
        }
        if is(&BUILDS) {
            return Ok(Kind::Builds);
        }
        if is(&OTHERS) {
            return Ok(Kind::Plain);
        }
        let command = self.command.clone();
        Err(match meant::meant(&command) {
            Some(meant) => Error::Mistyped { command, meant },
            None => Error::Foreign { command },
        })
    }

    /// The words for cargo, with these options of ours among them.
    pub fn words(&self, ours: &[String]) -> Vec<String> {
        let command = std::slice::from_ref(&self.command);
        if self.command == "clippy" {
            // A program of its own, to which cargo passes on only what comes behind its name.
            [command, &self.before, ours, &self.after].concat()
        } else {
            [&self.before, ours, command, &self.after].concat()
        }
    }
}

impl Options {
    /// Reads the options of this program's own commands.
    ///
    /// # Errors
    ///
    /// If there are others.
    pub fn of(words: &[String]) -> Result<Self, Error> {
        let mut options = Self::default();
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            if !options.take_next(word, &mut rest) {
                return Err(Error::UnknownOption { word: word.clone() });
            }
        }
        Ok(options)
    }

    /// Reads those among these words that concern more than one command.
    pub(crate) fn read_all(words: &[String]) -> Self {
        Self::read(&[], "", words)
    }

    fn read(before: &[String], command: &str, after: &[String]) -> Self {
        // What comes behind the first plain word belongs to the program that is run.
        let end = match command {
            "run" | "r" => first_positional(after),
            _ => after.iter().position(|word| word == "--"),
        };
        let mut options = Self::default();
        let mut rest = before.iter().chain(&after[..end.unwrap_or(after.len())]);
        while let Some(word) = rest.next() {
            options.take_next(word, &mut rest);
        }
        options
    }

    /// Takes an option and its value, or says that it is none of these.
    fn take_next<'a>(&mut self, word: &str, rest: &mut impl Iterator<Item = &'a String>) -> bool {
        let (name, value) = split(word);
        let value = match value {
            Some(value) => Some(value.to_owned()),
            None if VALUED.contains(&name) => rest.next().cloned(),
            None => None,
        };
        self.take(name, value)
    }

    fn take(&mut self, name: &str, value: Option<String>) -> bool {
        match (name, value) {
            ("--offline", _) => self.set_offline(),
            ("--locked", _) => self.locked = true,
            ("--frozen", _) => {
                self.locked = true;
                self.set_offline();
            }
            ("--all-features" | "--no-default-features", _) => self.features.push(name.into()),
            ("--features" | "-F", Some(value)) => {
                self.features.extend(["--features".into(), value]);
            }
            ("--manifest-path" | "-Z", Some(value)) => self.common.extend([name.into(), value]),
            ("--config", Some(value)) => {
                self.common.extend([name.into(), value.clone()]);
                self.config.push(value);
            }
            ("--target", Some(value)) => self.platforms.push(value),
            ("--target-dir", Some(value)) => self.target = Some(value.into()),
            _ => return false,
        }
        true
    }

    fn set_offline(&mut self) {
        self.offline = true;
        self.common.push("--offline".into());
    }
}

/// Cargo's own commands.
pub(crate) fn builtins() -> impl Iterator<Item = &'static str> {
    [&BUILDS[..], &OTHERS, &OWN_LOCK]
        .into_iter()
        .flatten()
        .copied()
}

fn is_builtin(name: &str) -> bool {
    builtins().any(|builtin| builtin == name)
}

/// An option's name, and its value if that is in the same word.
pub(crate) fn split(word: &str) -> (&str, Option<&str>) {
    if word.starts_with("--") {
        return match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
    }
    match word.get(..2) {
        Some(name @ ("-F" | "-Z" | "-C" | "-j" | "-p")) if word.len() > 2 => {
            (name, Some(word[2..].trim_start_matches('=')))
        }
        _ => (word, None),
    }
}

/// Where the first word is that neither is an option nor belongs to one.
pub fn first_positional(words: &[String]) -> Option<usize> {
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let (name, value) = split(word);
        if !word.starts_with('-') || word == "--" {
            return Some(at);
        }
        at += if value.is_none() && VALUED.contains(&name) {
            2
        } else {
            1
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn call(line: &str) -> Call {
        let aliases = [
            "alias.lint='clippy --all-targets'".to_owned(),
            "alias.up='--offline update'".to_owned(),
            "alias.loop='loop'".to_owned(),
        ];
        let config = Config::read(Path::new("/nowhere"), &aliases).unwrap();
        let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        Call::parse(&words, &config).unwrap()
    }

    fn words(line: &str) -> String {
        call(line)
            .words(&["--config".into(), "ours".into()])
            .join(" ")
    }

    #[test]
    fn our_options_come_where_the_command_hears_them() {
        assert_eq!(words("build -p x"), "--config ours build -p x");
        assert_eq!(
            words("-v --color never b"),
            "-v --color never --config ours b"
        );
        assert_eq!(
            words("--offline lint -- -D x"),
            "clippy --offline --config ours --all-targets -- -D x"
        );
    }

    #[test]
    fn options_are_read_in_every_form() {
        let all = call(
            "check --manifest-path=a/Cargo.toml --config k=1 -Fx -F y --features=z --target t \
             --target-dir=d --frozen -- --offline --config no",
        );
        let options = all.options;
        assert_eq!(
            options.common.join(" "),
            "--manifest-path a/Cargo.toml --config k=1 --offline"
        );
        assert_eq!(
            options.features.join(" "),
            "--features x --features y --features z"
        );
        assert_eq!(options.platforms, ["t"]);
        assert_eq!(options.target.as_deref(), Some(Path::new("d")));
        assert!(options.locked && options.offline);
    }

    #[test]
    fn the_programs_own_options_are_not_cargos() {
        let run = call("run -p server --release file --config its --offline");
        assert_eq!(run.options, Options::default());
        assert!(call("test name --offline").options.offline);
    }

    #[test]
    fn what_would_go_wrong_is_refused() {
        assert_eq!(call("test").kind().unwrap(), Kind::Builds);
        assert_eq!(call("clean").kind().unwrap(), Kind::Plain);
        assert!(matches!(call("up").kind(), Err(Error::OwnLock { .. })));
        assert!(matches!(
            call("nextest run").kind(),
            Err(Error::Foreign { .. })
        ));
    }

    #[test]
    fn an_alias_of_itself_ends() {
        let config = Config::read(Path::new("/"), &["alias.loop='loop'".to_owned()]).unwrap();
        assert!(Call::parse(&["loop".to_owned()], &config).is_err());
        assert!(Call::parse(&["--offline".to_owned()], &config).is_err());
    }
}
