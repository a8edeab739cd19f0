//! What people told cargo in its configuration, as far as it concerns this program.
//!
//! Cargo can print its configuration only as a nightly, so the files are read here in cargo's
//! order: options of the command line, `.cargo/config.toml` in the folder and those above it, and
//! the one in cargo's home. Behind each come the files that it includes, the last one first.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

use crate::error::{self, Error};

/// What the URL of the usual registry has, and no other's: a patch may name it so.
const BY_URL: &str = "github.com/rust-lang/crates";
/// Its usual name in a patch.
pub(crate) const USUAL: &str = "crates-io";

/// Whether a URL, or the source of a package, is that registry's.
pub(crate) fn is_usual(url: &str) -> bool {
    url == USUAL || url.contains(BY_URL)
}

/// All layers, the strongest first.
#[derive(Debug, Default)]
pub struct Config {
    layers: Vec<Layer>,
}

#[derive(Debug)]
struct Layer {
    /// The file, or the option.
    name: String,
    table: Table,
}

impl Config {
    /// Reads what cargo reads when it is started in this folder with these `--config` options.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or is not TOML.
    pub fn read(folder: &Path, options: &[String]) -> Result<Self, Error> {
        let mut layers = Vec::new();
        for option in options.iter().rev() {
            let path = folder.join(option);
            let (layer, base) = if path.is_file() {
                (Layer::file(&path)?, path.parent().unwrap_or(folder))
            } else {
                let layer = Layer::parse(format!("--config {option}"), option, Path::new(option))?;
                (layer, folder)
            };
            layer.add_to(&mut layers, base, &mut BTreeSet::from([path.clone()]))?;
        }
        let home = cargo_home();
        let above = folder.ancestors().map(|folder| folder.join(".cargo"));
        let above = above.filter(|place| Some(place) != home.as_ref());
        for place in above.chain(home.clone()) {
            if let Some(path) = file_in(&place) {
                let seen = &mut BTreeSet::from([path.clone()]);
                Layer::file(&path)?.add_to(&mut layers, &place, seen)?;
            }
        }
        Ok(Self { layers })
    }

    /// What an alias stands for.
    pub fn alias(&self, name: &str) -> Option<Vec<String>> {
        let variable = format!("CARGO_ALIAS_{}", name.to_uppercase().replace('-', "_"));
        if let Ok(text) = std::env::var(variable) {
            return Some(text.split_whitespace().map(str::to_owned).collect());
        }
        let words = |value: &Value| match value {
            Value::String(text) => Some(text.split_whitespace().map(str::to_owned).collect()),
            Value::Array(words) => (words.iter())
                .map(|word| word.as_str().map(str::to_owned))
                .collect(),
            _ => None,
        };
        self.find(&["alias", name])
            .and_then(|(_, value)| words(value))
    }

    /// Who patches `tokio` or `evenkeel` already: the layer, and what it puts in its place.
    pub fn patch(&self) -> Option<(&str, Patch)> {
        (self.layers.iter()).find_map(|layer| Some((layer.name.as_str(), layer.patch()?)))
    }

    /// Whether a runner is set for a condition. A second one would be an error of cargo's.
    pub fn has_runner_by_condition(&self) -> bool {
        let targets =
            (self.layers.iter()).filter_map(|layer| layer.table.get("target")?.as_table());
        targets
            .flatten()
            .any(|(name, target)| name.starts_with("cfg(") && target.get("runner").is_some())
    }

    /// The strongest layer whose flags for the compiler, for all targets or for some, have this.
    pub fn has_rustflag(&self, flag: &str) -> Option<&str> {
        let has = |flags: Option<&Value>| match flags {
            Some(Value::String(flags)) => flags.contains(flag),
            Some(Value::Array(flags)) => {
                (flags.iter()).any(|word| word.as_str().is_some_and(|word| word.contains(flag)))
            }
            _ => false,
        };
        let is_it = |layer: &&Layer| {
            let build = layer.table.get("build");
            let targets = layer.table.get("target").and_then(Value::as_table);
            let mut all = build
                .into_iter()
                .chain(targets.into_iter().flat_map(Table::values));
            all.any(|table| has(table.get("rustflags")))
        };
        let layer = self.layers.iter().find(is_it)?;
        Some(&layer.name)
    }

    /// The folder that the usual registry is replaced by, as `cargo vendor` asks for.
    pub fn vendored(&self) -> Option<String> {
        let mut name = "crates-io".to_owned();
        // Replacements may be chained; a cycle is an error of cargo's.
        for _ in 0..8 {
            let (_, next) = self.find(&["source", &name, "replace-with"])?;
            name = next.as_str()?.to_owned();
            if let Some((_, folder)) = self.find(&["source", &name, "directory"]) {
                return folder.as_str().map(str::to_owned);
            }
        }
        None
    }

    /// The strongest layer that has a value, and the value.
    fn find(&self, keys: &[&str]) -> Option<(&str, &Value)> {
        self.layers.iter().find_map(|layer| {
            let (first, rest) = keys.split_first()?;
            let mut value = layer.table.get(*first)?;
            for key in rest {
                value = value.get(*key)?;
            }
            Some((layer.name.as_str(), value))
        })
    }
}

/// Somebody's patch of a package that this program patches.
#[derive(Debug)]
pub struct Patch {
    /// The package.
    pub package: &'static str,
    /// What is in its place.
    pub by: String,
}

/// What a manifest puts in the place of `tokio` or `evenkeel`.
///
/// # Errors
///
/// If it cannot be read or is not TOML.
pub fn patch_in_manifest(path: &Path) -> Result<Option<Patch>, Error> {
    Layer::file(path).map(|layer| layer.patch())
}

impl Layer {
    /// Adds this layer, and then what it includes by paths that are relative to this folder. Of
    /// two included files the later is the stronger. A file that is in `seen` includes itself,
    /// which cargo refuses.
    fn add_to(
        self,
        layers: &mut Vec<Self>,
        base: &Path,
        seen: &mut BTreeSet<PathBuf>,
    ) -> Result<(), Error> {
        let included = self.included(base);
        layers.push(self);
        for (path, is_optional) in included.into_iter().rev() {
            if is_optional && !path.exists() || !seen.insert(path.clone()) {
                continue;
            }
            let folder = path.parent().unwrap_or(base);
            Self::file(&path)?.add_to(layers, folder, seen)?;
            seen.remove(&path);
        }
        Ok(())
    }

    /// The files that it includes, and whether each may be missing.
    fn included(&self, base: &Path) -> Vec<(PathBuf, bool)> {
        let entries = self.table.get("include").and_then(Value::as_array);
        let path_of = |entry: &Value| {
            let path = entry.get("path").unwrap_or(entry).as_str()?;
            let is_optional = entry.get("optional").and_then(Value::as_bool);
            Some((base.join(path), is_optional.unwrap_or_default()))
        };
        entries.into_iter().flatten().filter_map(path_of).collect()
    }

    fn patch(&self) -> Option<Patch> {
        // A project may have its own Evenkeel from anywhere.
        let of_tokio = self.patch_of("tokio", is_usual);
        of_tokio.or_else(|| self.patch_of("evenkeel", |_| true))
    }

    /// What is put in the place of a package from such a source.
    fn patch_of(&self, package: &'static str, is_source: impl Fn(&str) -> bool) -> Option<Patch> {
        let sources = self.table.get("patch").and_then(Value::as_table);
        let sources = sources.into_iter().flatten();
        let entries = sources
            .filter(|(url, _)| is_source(url))
            .filter_map(|(_, entries)| entries.as_table());
        let is_it = |(key, entry): &(&String, &Value)| {
            let renamed = entry.get("package").and_then(Value::as_str);
            renamed.unwrap_or(key) == package
        };
        let (_, entry) = entries.flatten().find(is_it)?;
        let by = entry.to_string();
        Some(Patch { package, by })
    }

    fn file(path: &Path) -> Result<Self, Error> {
        let text = fs::read_to_string(path).map_err(error::file("read", path))?;
        Self::parse(path.display().to_string(), &text, path)
    }

    fn parse(name: String, text: &str, path: &Path) -> Result<Self, Error> {
        let table = toml::from_str(text).map_err(|error| Error::Toml {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Self { name, table })
    }
}

/// Cargo's file in such a folder. The old name wins where both are there, as with cargo.
pub fn file_in(folder: &Path) -> Option<PathBuf> {
    let places = ["config", "config.toml"].map(|name| folder.join(name));
    places.into_iter().find(|path| path.is_file())
}

/// Where cargo keeps what it fetches, and what this program keeps for no single project.
pub fn cargo_home() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").filter(|home| !home.is_empty());
    let usual = || Some(Path::new(&std::env::var_os("HOME")?).join(".cargo"));
    home.map(PathBuf::from).or_else(usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(options: &[&str]) -> Config {
        let options: Vec<_> = options.iter().map(|option| (*option).to_owned()).collect();
        Config::read(Path::new("/nowhere"), &options).unwrap()
    }

    #[test]
    fn a_patch_is_found_under_every_name() {
        for (package, text) in [
            ("tokio", "patch.crates-io.tokio.path='x'"),
            ("tokio", "patch.crates-io.mine={package='tokio',path='x'}"),
            (
                "tokio",
                "patch.'https://github.com/rust-lang/crates-index'.tokio.git='x'",
            ),
            ("evenkeel", "patch.crates-io.evenkeel.path='x'"),
            ("evenkeel", "patch.'https://x.org/e'.evenkeel.path='x'"),
        ] {
            let config = config(&[text]);
            let (name, patch) = config.patch().expect(text);
            assert!(name.contains("--config"), "{name}");
            assert_eq!(patch.package, package);
        }
        let others = config(&[
            "patch.crates-io.tokio-util.path='x'",
            "patch.'https://example.org'.tokio.path='x'",
        ]);
        assert!(others.patch().is_none());
    }

    #[test]
    fn later_options_are_stronger() {
        let config = config(&["alias.x='a'", "alias.x=['b', 'c d']"]);
        assert_eq!(config.alias("x").unwrap(), ["b", "c d"]);
        assert_eq!(config.alias("y"), None);
    }

    #[test]
    fn what_a_file_includes_is_weaker_and_the_later_the_stronger() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(".cargo").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "config.toml",
            "include = ['a.toml', { path = 'b/b.toml' }, { path = 'none.toml', optional = true }]\n\
             alias.x = 'own'",
        );
        write(
            "a.toml",
            "include = ['a.toml']\nalias = { x = 'a', y = 'a', z = 'a' }",
        );
        write(
            "b/b.toml",
            "include = ['c.toml']\nalias.y = 'b'\npatch.crates-io.tokio.path = 'x'",
        );
        write("b/c.toml", "alias = { y = 'c', w = 'c' }");
        let config = Config::read(folder.path(), &[]).unwrap();
        let aliases = ["x", "y", "z", "w"].map(|name| config.alias(name).unwrap().concat());
        assert_eq!(aliases, ["own", "b", "a", "c"]);
        let (place, _) = config.patch().unwrap();
        assert!(place.ends_with("b/b.toml"), "{place}");

        write("config.toml", "include = ['none.toml']");
        let missing = Config::read(folder.path(), &[]).unwrap_err().to_string();
        assert!(missing.contains("none.toml"), "{missing}");
        // Also by an option, where paths are relative to the folder.
        write("config.toml", "");
        let options = ["include = ['.cargo/a.toml']".to_owned()];
        let config = Config::read(folder.path(), &options).unwrap();
        assert_eq!(config.alias("z").unwrap(), ["a"]);
    }

    #[test]
    fn a_replacement_is_followed_to_its_folder() {
        let config = config(&[
            "source.crates-io.replace-with='a'",
            "source.a.replace-with='b'",
            "source.b.directory='vendor'",
        ]);
        assert_eq!(config.vendored().as_deref(), Some("vendor"));
    }
}
