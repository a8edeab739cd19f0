//! The graph that cargo has resolved: one Tokio and one Evenkeel, and both are ours.

use cargo_metadata::{Metadata, Package, PackageId};

use crate::copy::Copy;
use crate::error::Error;
use crate::manifest::LEFT_OUT;
use crate::patches::{OURS, Patches};

/// Makes sure that nothing uses another Tokio or another Evenkeel.
///
/// # Errors
///
/// If something does, or asks Evenkeel for what it cannot have beneath Tokio.
pub(crate) fn check(metadata: &Metadata, patches: &Patches) -> Result<(), Error> {
    check_tokio(metadata, &patches.copy)?;
    if let Some(other) = patches.others(metadata).next() {
        return Err(another_evenkeel(metadata, other, patches));
    }
    match evenkeel(metadata, &patches.copy) {
        Some(ours) => check_evenkeel(metadata, ours, &patches.copy),
        None => Ok(()),
    }
}

/// Makes sure that all Evenkeels in the graph of the project as it is are among those that are
/// replaced.
///
/// # Errors
///
/// If one is not.
pub(crate) fn check_replaced(metadata: &Metadata, patches: &Patches) -> Result<(), Error> {
    let mut others = patches.others(metadata);
    match others.find(|other| !patches.is_known(other)) {
        Some(other) => Err(another_evenkeel(metadata, other, patches)),
        None => Ok(()),
    }
}

fn check_tokio(metadata: &Metadata, copy: &Copy) -> Result<(), Error> {
    let ours = copy.package("tokio");
    let is_other = |package: &&Package| {
        package.name.as_str() == "tokio" && !package.manifest_path.starts_with(&ours)
    };
    let Some(other) = metadata.packages.iter().find(is_other) else {
        return Ok(());
    };
    Err(Error::AnotherTokio {
        users: users_of(metadata, &other.id).join(", "),
        other: format!("version {}", other.version),
        version: copy.version.to_string(),
        advice: advice_about(&other.version, &copy.version),
    })
}

fn advice_about(other: &semver::Version, ours: &semver::Version) -> String {
    let who = format!("See who asks for it: cargo tree -i tokio@{other}.");
    if other.major == 0 {
        return format!("{who} It is from before Tokio 1, so its users have to be updated.");
    }
    format!(
        "{who} If a requirement is too narrow, widen it, or run: cargo update -p tokio@{other} \
         --precise {ours}"
    )
}

fn another_evenkeel(metadata: &Metadata, other: &Package, patches: &Patches) -> Error {
    let advice = if other.version.to_string() != OURS {
        format!("Take version {OURS} in the project, or the cargo-evenkeel of that version.")
    } else if metadata.workspace_members.contains(&other.id) {
        "It is a member of this workspace: move the packages that use Tokio to another one.".into()
    } else if patches.is_known(other) {
        "Something overrides it: look for `evenkeel` in the manifests, and under `paths` in \
         cargo's configuration."
            .into()
    } else {
        "Run `cargo evenkeel init` again: it has come since.".into()
    };
    Error::AnotherEvenkeel {
        users: users_of(metadata, &other.id).join(", "),
        other: format!("version {} in {}", other.version, folder_of(other)),
        advice,
    }
}

fn folder_of(package: &Package) -> String {
    let manifest = &package.manifest_path;
    manifest.parent().unwrap_or(manifest).to_string()
}

/// The Evenkeel of the copy that packages of the project use, if one does.
pub(crate) fn evenkeel<'a>(metadata: &'a Metadata, copy: &Copy) -> Option<&'a Package> {
    let ours = copy.package("evenkeel");
    let mut packages = metadata.packages.iter();
    packages.find(|package| package.manifest_path.starts_with(&ours))
}

fn check_evenkeel(metadata: &Metadata, ours: &Package, copy: &Copy) -> Result<(), Error> {
    let users = users_of(metadata, &ours.id);
    let features = features_of(metadata, &ours.id);
    let left_out = LEFT_OUT.iter().filter(|(name, _)| features.contains(name));
    let asked: Vec<_> = left_out
        .map(|(feature, instead)| {
            let places = places_of(metadata, feature);
            // By a feature of a feature, it may be hard to tell.
            let places = if places.is_empty() { &users } else { &places };
            format!("- `{feature}`, in {}:\n  {instead}", places.join(", "))
        })
        .collect();
    if !asked.is_empty() {
        return Err(Error::LeftOut {
            features: asked.join("\n"),
        });
    }
    let is_tokio = |package: &&Package| package.manifest_path.starts_with(copy.package("tokio"));
    let tokio = metadata.packages.iter().find(is_tokio);
    if tokio.is_none_or(|tokio| features_of(metadata, &tokio.id).contains(&"rt-multi-thread")) {
        return Ok(());
    }
    Err(Error::NothingAbove {
        users: users.join(", "),
    })
}

/// The manifests that ask Evenkeel for this feature.
pub(crate) fn places_of(metadata: &Metadata, feature: &str) -> Vec<String> {
    let packages = metadata.packages.iter();
    packages
        .filter(|package| asks_for(package, feature))
        .map(|package| package.manifest_path.to_string())
        .collect()
}

/// Whether a package's manifest asks Evenkeel for this feature.
fn asks_for(package: &Package, feature: &str) -> bool {
    let mut needs = package
        .dependencies
        .iter()
        .filter(|need| need.name == "evenkeel");
    let asked = [
        format!("evenkeel/{feature}"),
        format!("evenkeel?/{feature}"),
    ];
    needs.any(|need| need.features.iter().any(|asked| asked == feature))
        || package
            .features
            .values()
            .flatten()
            .any(|name| asked.contains(name))
}

/// The features that a package is asked for.
pub(crate) fn features_of<'a>(metadata: &'a Metadata, id: &PackageId) -> Vec<&'a str> {
    let nodes = metadata.resolve.iter().flat_map(|resolve| &resolve.nodes);
    let node = nodes.into_iter().find(|node| node.id == *id);
    let features = node.iter().flat_map(|node| &node.features);
    features.map(|feature| feature.as_str()).collect()
}

/// The names of the packages that depend on this one.
pub(crate) fn users_of(metadata: &Metadata, id: &PackageId) -> Vec<String> {
    let nodes = metadata.resolve.iter().flat_map(|resolve| &resolve.nodes);
    let users = nodes.filter(|node| node.dependencies.contains(id));
    users
        .map(|node| metadata[&node.id].name.to_string())
        .collect()
}
