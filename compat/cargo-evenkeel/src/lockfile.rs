//! What a `Cargo.lock` says.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, value};

use crate::error::{self, Error};
use crate::manifest;

/// What only a build on Evenkeel has.
const OURS: [&str; 4] = [
    "tokio-traits",
    manifest::BENEATH,
    "evenkeel",
    "evenkeel-macros",
];

/// The packages of a lock file.
#[derive(Debug, Default, Deserialize)]
pub struct LockFile {
    #[serde(default, rename = "package")]
    packages: Vec<Locked>,
}

/// One of them.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
pub struct Locked {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: semver::Version,
    /// Where it comes from; nothing for a path.
    pub source: Option<String>,
    /// Of its archive, if it has one.
    pub checksum: Option<String>,
    /// What it needs: names, with versions where a name is not clear.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<String>,
}

impl LockFile {
    /// Reads a lock file.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is not one.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = fs::read_to_string(path).map_err(error::file("read", path))?;
        toml::from_str(&text).map_err(|error| Error::Toml {
            path: path.to_owned(),
            reason: error.to_string(),
        })
    }

    /// Tokio 1, the published one if there are several.
    pub fn tokio(&self) -> Option<&Locked> {
        let all = || (self.packages.iter()).filter(|p| p.name == "tokio" && p.version.major == 1);
        all()
            .find(|package| package.checksum.is_some())
            .or_else(|| all().next())
    }

    /// Evenkeel and its macros, if packages of the project depend on them.
    pub fn evenkeels(&self) -> impl Iterator<Item = &Locked> {
        let is_one = |package: &&Locked| OURS[2..].contains(&package.name.as_str());
        self.packages.iter().filter(is_one)
    }

    /// Whether one of these comes from a path: that of the project, or ours.
    pub(crate) fn has_evenkeel_by_path(&self) -> bool {
        self.evenkeels().any(|package| package.source.is_none())
    }

    /// The package of this name that another one needs.
    pub fn dependency_of(&self, user: &str, name: &str) -> Option<&Locked> {
        let user = self.packages.iter().find(|package| package.name == user)?;
        let mut all = self.packages.iter().filter(|package| package.name == name);
        all.find(|package| {
            let exact = format!("{name} {}", package.version);
            user.dependencies
                .iter()
                .any(|need| need == name || need.starts_with(&exact))
        })
    }

    /// Whether it is one of ours: the copy is in Tokio's place.
    pub fn is_ours(&self) -> bool {
        (self.packages.iter()).any(|package| package.name == OURS[0] && package.source.is_none())
    }

    /// Whether this is one of ours that was made of `users`: the same packages come from paths.
    pub(crate) fn is_made_of(&self, users: &Self) -> bool {
        let by_path = |lock: &Self| {
            let is_theirs = |package: &&Locked| {
                package.source.is_none()
                    && package.name != "tokio"
                    && !OURS.contains(&package.name.as_str())
            };
            let theirs = lock.packages.iter().filter(is_theirs);
            let all = theirs.map(|package| (package.name.clone(), package.version.clone()));
            all.collect::<BTreeSet<_>>()
        };
        self.is_ours() && !users.is_ours() && by_path(self) == by_path(users)
    }

    /// Whether it is what a plain cargo makes of our lock file, if nobody asks it to change a
    /// package: it has Tokio, and an Evenkeel of the project's own, from where they were again, and
    /// else nothing that `users` has not.
    pub fn is_by_the_way(&self, users: &Self) -> bool {
        let again = ["tokio", "tokio-macros", "evenkeel", "evenkeel-macros"];
        (self.packages.iter())
            .filter(|package| !again.contains(&package.name.as_str()))
            .all(|package| users.packages.iter().any(|users| users.is_same(package)))
    }
}

impl Locked {
    /// Whether this is the same package, whatever it needs.
    fn is_same(&self, other: &Self) -> bool {
        let parts = |it: &Self| (it.name.clone(), it.version.clone(), it.source.clone());
        parts(self) == parts(other)
    }
}

/// Our lock file with what was locked before, Tokio first, in the place of the copy. Cargo drops
/// what else is not needed.
///
/// # Errors
///
/// If it is not TOML.
pub fn without_evenkeel(text: &str, path: &Path, originals: &[Locked]) -> Result<String, Error> {
    let bad = |error: toml_edit::TomlError| Error::Toml {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    let mut lock: DocumentMut = text.parse().map_err(bad)?;
    if let Some(packages) = lock
        .get_mut("package")
        .and_then(Item::as_array_of_tables_mut)
    {
        restore(packages, originals);
    }
    Ok(lock.to_string())
}

fn restore(packages: &mut ArrayOfTables, originals: &[Locked]) {
    let text = |table: &Table, key| table.get(key).and_then(Item::as_str).map(str::to_owned);
    let is_by_path = |table: &Table| text(table, "source").is_none();
    let original_of = |table: &Table| {
        let name = text(table, "name")?;
        originals.iter().find(|original| original.name == name)
    };
    packages.retain(|table| {
        let is_ours = text(table, "name").is_some_and(|name| OURS.contains(&name.as_str()));
        !is_ours || !is_by_path(table) || original_of(table).is_some()
    });
    for table in packages.iter_mut().filter(|table| is_by_path(table)) {
        let Some(original) = original_of(table) else {
            continue;
        };
        let parts = [
            ("source", &original.source),
            ("checksum", &original.checksum),
        ];
        for (key, text) in parts {
            if let Some(text) = text {
                table.insert(key, value(text));
            }
        }
        if let Some(needs) = table.get_mut("dependencies").and_then(Item::as_array_mut) {
            needs.retain(|need| !need.as_str().is_some_and(|need| OURS[..2].contains(&need)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str = "[[package]]\nname = \"tokio\"\nversion = \"1.54.0\"\nsource = \"r\"\n\
        checksum = \"1\"\n\n[[package]]\nname = \"bytes\"\nversion = \"1.0.0\"\nsource = \"r\"\n";

    fn lock(text: &str) -> LockFile {
        toml::from_str(text).unwrap()
    }

    /// An Evenkeel that the project has from elsewhere.
    fn its_own() -> Locked {
        Locked {
            name: "evenkeel".into(),
            version: semver::Version::new(0, 1, 0),
            source: Some("git+u#c0ffee".into()),
            checksum: None,
            dependencies: Vec::new(),
        }
    }

    #[test]
    fn a_plain_cargo_that_passed_by_is_told_from_a_persons_update() {
        let users = lock(USERS);
        let newer_tokio = USERS.replace("1.54.0", "1.54.9");
        assert!(lock(&newer_tokio).is_by_the_way(&users));
        assert!(lock("").is_by_the_way(&users));
        let updated = USERS.replace("1.0.0", "1.0.1");
        assert!(!lock(&updated).is_by_the_way(&users));
    }

    #[test]
    fn tokio_comes_back_and_ours_go() {
        let ours = "version = 4\n\n[[package]]\nname = \"evenkeel\"\nversion = \"0.1.0\"\n\n\
            [[package]]\nname = \"tokio\"\nversion = \"1.54.1\"\n\
            dependencies = [\n \"bytes\",\n \"evenkeel-beneath\",\n]\n\n\
            [[package]]\nname = \"evenkeel-beneath\"\nversion = \"0.1.0\"\n\n\
            [[package]]\nname = \"tokio-traits\"\nversion = \"1.54.1\"\n";
        let users = lock(USERS);
        let original = users.tokio().unwrap();
        assert!(lock(ours).is_ours());
        let back = |originals: &[Locked]| {
            lock(&without_evenkeel(ours, Path::new("Cargo.lock"), originals).unwrap())
        };
        let with_its_own = [original.clone(), its_own()];
        assert!(back(&with_its_own).packages.contains(&its_own()));
        let back = back(&with_its_own[..1]);
        assert!(!back.is_ours());
        let tokio = back.tokio().unwrap();
        assert_eq!(tokio.checksum.as_deref(), Some("1"));
        assert_eq!(tokio.source.as_deref(), Some("r"));
        assert_eq!(back.packages.len(), 1);
    }
}
