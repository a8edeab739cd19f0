//! What people told cargo in its configuration, as far as it concerns this program.
//!
//! Cargo can print its configuration only as a nightly, so the files are read here in cargo's
//! order: options of the command line, `.cargo/config.toml` in the folder and those above it, and
//! the one in cargo's home.

use std::fs;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

use crate::error::{self, Error};

/// What the URL of the usual registry has, and no other's: a patch may name it so.
const BY_URL: &str = "github.com/rust-lang/crates";

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
            layers.push(if path.is_file() {
                Layer::file(&path)?
            } else {
                Layer::parse(format!("--config {option}"), option, Path::new(option))?
            });
        }
        let home = cargo_home();
        let above = folder.ancestors().map(|folder| folder.join(".cargo"));
        for place in above.filter(|place| Some(place) != home.as_ref()) {
            layers.extend(file_in(&place).map(|path| Layer::file(&path)).transpose()?);
        }
        let last = home.as_deref().and_then(file_in);
        layers.extend(last.map(|path| Layer::file(&path)).transpose()?);
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

    /// Who patches `tokio` already: the layer, and what it puts in Tokio's place.
    pub fn patch_of_tokio(&self) -> Option<(&str, String)> {
        (self.layers.iter()).find_map(|layer| Some((layer.name.as_str(), layer.patch_of_tokio()?)))
    }

    /// Whether a runner is set for a condition. A second one would be an error of cargo's.
    pub fn has_runner_by_condition(&self) -> bool {
        let targets =
            (self.layers.iter()).filter_map(|layer| layer.table.get("target")?.as_table());
        targets
            .flatten()
            .any(|(name, target)| name.starts_with("cfg(") && target.get("runner").is_some())
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

/// What a manifest puts in Tokio's place.
///
/// # Errors
///
/// If it cannot be read or is not TOML.
pub fn patch_in_manifest(path: &Path) -> Result<Option<String>, Error> {
    Layer::file(path).map(|layer| layer.patch_of_tokio())
}

impl Layer {
    fn patch_of_tokio(&self) -> Option<String> {
        let patch = self.table.get("patch").and_then(Value::as_table);
        let of_crates_io =
            |(url, _): &(&String, &Value)| url.as_str() == "crates-io" || url.contains(BY_URL);
        let entries = (patch.into_iter().flatten().filter(of_crates_io))
            .filter_map(|(_, entries)| entries.as_table());
        let is_tokio = |(key, entry): &(&String, &Value)| {
            let package = entry.get("package").and_then(Value::as_str);
            package.unwrap_or(key) == "tokio"
        };
        let found = entries.flatten().find(is_tokio);
        found.map(|(_, entry)| entry.to_string())
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
    fn a_patch_of_tokio_is_found_under_every_name() {
        for text in [
            "patch.crates-io.tokio.path='x'",
            "patch.crates-io.mine={package='tokio',path='x'}",
            "patch.'https://github.com/rust-lang/crates-index'.tokio.git='x'",
        ] {
            let config = config(&[text]);
            let (name, _) = config.patch_of_tokio().expect(text);
            assert!(name.contains("--config"), "{name}");
        }
        let others = config(&[
            "patch.crates-io.tokio-util.path='x'",
            "patch.'https://example.org'.tokio.path='x'",
        ]);
        assert!(others.patch_of_tokio().is_none());
    }

    #[test]
    fn later_options_are_stronger() {
        let config = config(&["alias.x='a'", "alias.x=['b', 'c d']"]);
        assert_eq!(config.alias("x").unwrap(), ["b", "c d"]);
        assert_eq!(config.alias("y"), None);
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
