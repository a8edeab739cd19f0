//! The manifests of the packages that take Tokio's place.

use std::path::Path;
use toml_edit::{DocumentMut, InlineTable, Item, Table, Value, value};

use crate::error::Error;
use crate::rules::Files;

const MANIFEST: &str = "Cargo.toml";

fn read(files: &Files) -> Result<DocumentMut, Error> {
    let text = files.get(MANIFEST).map(String::as_str).unwrap_or_default();
    text.parse()
        .map_err(|error: toml_edit::TomlError| Error::Toml {
            path: MANIFEST.into(),
            reason: error.to_string(),
        })
}

fn write(files: &mut Files, manifest: &DocumentMut) {
    files.insert(MANIFEST.into(), manifest.to_string());
    files.remove("Cargo.toml.orig");
    files.remove("Cargo.lock");
}

/// A dependency by path, with features and nothing else.
fn by_path(package: Option<&str>, path: &str, features: &[&str]) -> InlineTable {
    let mut table = InlineTable::new();
    if let Some(package) = package {
        table.insert("package", package.into());
    }
    table.insert("path", path.into());
    table.insert("default-features", false.into());
    if !features.is_empty() {
        table.insert("features", Value::Array(features.iter().copied().collect()));
    }
    table
}

/// No warnings in a package that is not the reader's.
fn quiet(manifest: &mut DocumentMut) {
    let mut rust = Table::new();
    rust.insert("warnings", value("allow"));
    let mut lints = Table::new();
    lints.insert("rust", Item::Table(rust));
    manifest.insert("lints", Item::Table(lints));
}

/// Removes what only the package's own tests need.
fn without_tests(manifest: &mut DocumentMut) {
    for key in ["test", "bench", "example", "dev-dependencies"] {
        manifest.remove(key);
    }
    if let Some(targets) = manifest.get_mut("target").and_then(Item::as_table_mut) {
        for (_, target) in targets.iter_mut() {
            if let Some(target) = target.as_table_mut() {
                target.remove("dev-dependencies");
            }
        }
        targets.retain(|_, target| target.as_table().is_none_or(|target| !target.is_empty()));
    }
}

/// Tokio itself, which depends on Evenkeel from now on.
pub(crate) fn tokio(mut files: Files) -> Result<Files, Error> {
    let mut manifest = read(&files)?;
    // Hogs are named by function, as they are by default without Tokio.
    let features = ["drop-in", "hog-stacks"];
    let mut own = by_path(Some(BENEATH), &format!("../{BENEATH}"), &features);
    let mut traits = by_path(Some("tokio-traits"), "../tokio-traits", &[]);
    // Elsewhere the copy is Tokio as it was, so that a team's builds on Windows go on.
    let needs = &mut manifest["target"]["cfg(unix)"]["dependencies"];
    for (name, package) in [("evenkeel", &mut own), ("evenkeel-traits", &mut traits)] {
        package.insert("optional", true.into());
        needs[name] = value(package.clone());
    }
    for (feature, brings) in [
        ("rt-multi-thread", "dep:evenkeel"),
        ("rt-multi-thread", "dep:evenkeel-traits"),
        // The buffer is one that `bytes` can fill.
        ("io-util", "evenkeel-traits?/io-util"),
    ] {
        if let Some(features) = manifest["features"][feature].as_array_mut() {
            features.push(brings);
        }
    }
    manifest["package"]["rust-version"] = value("1.95");
    quiet(&mut manifest);
    // Its own tests can be run, wherever the folder is.
    manifest["workspace"] = Item::Table(Table::new());
    write(&mut files, &manifest);
    Ok(files)
}

/// Tokio as it was, under another name and with hardly a feature: the traits of sockets.
pub(crate) fn traits(mut files: Files) -> Result<Files, Error> {
    let mut manifest = read(&files)?;
    manifest["package"]["name"] = value("tokio-traits");
    manifest["lib"]["name"] = value("tokio");
    without_tests(&mut manifest);
    quiet(&mut manifest);
    files.retain(|name, _| !name.starts_with("tests/"));
    write(&mut files, &manifest);
    Ok(files)
}

/// The name of Evenkeel beneath Tokio; the project's `evenkeel` is above both.
pub(crate) const BENEATH: &str = "evenkeel-beneath";
/// Features of Evenkeel's that depend on Tokio, so that they are above it.
const ABOVE: [&str; 3] = ["client", "hyper", "serve"];
/// The packages that they need, and nothing else does.
const NEEDED_ABOVE: [&str; 3] = ["hyper", "hyper-util", "tower-service"];
/// The files that they are made of.
const FILES_ABOVE: [&str; 3] = ["src/hyper.rs", "src/hyper/", "src/serve/"];
/// Features that cannot be had, and what a program uses in their place.
pub(crate) const LEFT_OUT: [(&str, &str); 1] = [(
    "tokio-context",
    "#[tokio::main], or a runtime of Tokio's Builder, for Builder::tokio_context",
)];

/// Evenkeel beneath Tokio, without the features that depend on Tokio.
pub(crate) fn beneath(files: Files) -> Result<Files, Error> {
    let mut files = own(files)?;
    let mut manifest = read(&files)?;
    manifest["package"]["name"] = value(BENEATH);
    let mut library = Table::new();
    library.insert("name", value("evenkeel"));
    manifest.insert("lib", Item::Table(library));
    let left_out = LEFT_OUT.map(|(feature, _)| feature);
    let features = ABOVE.iter().chain(&left_out);
    for (table, keys) in [
        ("features", features.collect::<Vec<_>>()),
        ("dependencies", NEEDED_ABOVE.iter().collect()),
    ] {
        if let Some(table) = manifest[table].as_table_mut() {
            keys.iter().for_each(|key| _ = table.remove(key));
        }
    }
    write(&mut files, &manifest);
    Ok(files)
}

/// The project's `evenkeel`: the one beneath, and the features that depend on Tokio. Of what it is
/// made of, `own_files` are not Evenkeel's own.
pub(crate) fn above(evenkeel: Files, own_files: Files) -> Result<Files, Error> {
    let mut files = own(evenkeel)?;
    let mut manifest = read(&files)?;
    manifest.remove("target");
    if let Some(needs) = manifest["dependencies"].as_table_mut() {
        needs.retain(|name, _| NEEDED_ABOVE.contains(&name) || name == "pin-project-lite");
        let path = format!("../{BENEATH}");
        let beneath = by_path(Some(BENEATH), &path, &["drop-in"]);
        needs.insert("beneath", value(beneath));
        // Its adapter for sockets.
        needs["hyper-util"]["features"] = value(Value::Array(["tokio"].into_iter().collect()));
    }
    if let Some(features) = manifest["features"].as_table_mut() {
        for (name, brings) in features.iter_mut() {
            if LEFT_OUT.iter().any(|(feature, _)| name == *feature) {
                // It keeps its name, so that cargo can resolve a graph that has it, and the
                // graph's check say what is wrong.
                *brings = value(toml_edit::Array::new());
            } else if name != "default" && !ABOVE.contains(&name.get()) {
                let below = format!("beneath/{}", name.get());
                *brings = value(Value::Array([below].into_iter().collect()));
            }
        }
    }
    files.retain(|name, _| FILES_ABOVE.iter().any(|part| name.starts_with(part)));
    files.extend(
        own_files
            .into_iter()
            .map(|(name, text)| (format!("src/{name}"), text)),
    );
    // Where plain cargo builds, nobody checks the graph.
    if let Some(root) = files.get_mut("src/lib.rs") {
        for (feature, _) in LEFT_OUT {
            *root += &format!(
                "\n#[cfg(feature = \"{feature}\")]\ncompile_error!(\"the feature `{feature}` of \
                 evenkeel cannot be had beneath Tokio; see `cargo evenkeel doctor`\");\n"
            );
        }
    }
    write(&mut files, &manifest);
    Ok(files)
}

/// Evenkeel's macros.
pub(crate) fn macros(files: Files) -> Result<Files, Error> {
    own(files)
}

/// A package of Evenkeel's, out of its workspace.
fn own(mut files: Files) -> Result<Files, Error> {
    let mut manifest = read(&files)?;
    let inherited = [
        ("version", env!("CARGO_PKG_VERSION")),
        ("edition", "2024"),
        ("rust-version", env!("CARGO_PKG_RUST_VERSION")),
        ("license", env!("CARGO_PKG_LICENSE")),
    ];
    for (key, said) in inherited {
        manifest["package"][key] = value(said);
    }
    if let Some(package) = manifest["package"].as_table_mut() {
        package.remove("authors");
    }
    if manifest["dependencies"].get("tokio").is_some() {
        manifest["dependencies"]["tokio"] =
            value(by_path(Some("tokio-traits"), "../tokio-traits", &[]));
    }
    without_tests(&mut manifest);
    quiet(&mut manifest);
    let is_source = |name: &str| Path::new(name).starts_with("src");
    files.retain(|name, _| name == MANIFEST || is_source(name));
    write(&mut files, &manifest);
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The manifest of Evenkeel itself.
    const NATIVE: &str = include_str!("../../../crates/evenkeel/Cargo.toml");

    fn files() -> Files {
        let mut files = Files::from([(MANIFEST.to_owned(), NATIVE.to_owned())]);
        for name in ["lib.rs", "hyper.rs", "serve/run.rs", "net/udp.rs"] {
            files.insert(format!("src/{name}"), "native".into());
        }
        files
    }

    #[test]
    fn every_feature_is_beneath_or_above() {
        let beneath = read(&beneath(files()).unwrap()).unwrap();
        let own_files = Files::from([("lib.rs".to_owned(), "above".to_owned())]);
        let made = above(files(), own_files).unwrap();
        let above = read(&made).unwrap();
        let native: DocumentMut = NATIVE.parse().unwrap();
        for (name, brings) in native["features"].as_table().unwrap() {
            let found = above["features"][name].to_string();
            if name == "default" || ABOVE.contains(&name) {
                assert_eq!(found, brings.to_string());
                continue;
            }
            let is_left_out = LEFT_OUT.iter().any(|(feature, _)| *feature == name);
            assert_eq!(found.contains("beneath/"), !is_left_out, "{name}: {found}");
            let is_beneath = beneath["features"].get(name).is_some();
            assert_eq!(is_beneath, !is_left_out, "{name}");
        }
        for name in NEEDED_ABOVE {
            assert!(beneath["dependencies"].get(name).is_none(), "{name}");
            assert!(above["dependencies"].get(name).is_some(), "{name}");
        }
        let names: Vec<_> = made.keys().map(String::as_str).collect();
        let expected = [MANIFEST, "src/hyper.rs", "src/lib.rs", "src/serve/run.rs"];
        assert_eq!(names, expected);
        assert!(made["src/lib.rs"].starts_with("above"));
    }
}
