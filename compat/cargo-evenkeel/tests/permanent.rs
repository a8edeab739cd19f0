//! `cargo evenkeel init` and `remove`.

mod support;

use std::fs;
use support::{Project, fails, is_on_evenkeel, project, said, succeeds, unlocked};

const CONFIG: &str = ".cargo/config.toml";
const LOCK: &str = "Cargo.lock";
const FULL: &str = "tokio = { version = \"=1.54.1\", features = [\"full\"] }";

fn is_current(project: &Project) -> bool {
    let output = project.evenkeel(&["init", "--check"]);
    assert_eq!(
        output.status.success(),
        said(&output).contains("permanent and current")
    );
    output.status.success()
}

/// Where the copy is, below the project.
fn copy(project: &Project) -> String {
    let text = project.read(CONFIG);
    let (_, rest) = text.split_once("path = \".cargo/evenkeel/").unwrap();
    format!(".cargo/evenkeel/{}", rest.split_once('/').unwrap().0)
}

#[test]
fn it_comes_and_goes_without_a_trace() {
    for config in [
        None,
        Some("# Ours.\n[build]\njobs = 1 # one\n\n[patch.crates-io]\nother.path = \"o\"\n"),
        Some("build.jobs = 1"),
    ] {
        let project = project();
        if let Some(config) = config {
            project.write(CONFIG, config);
            project.add("o", "other", "0.1.0", "");
        }
        let before = project.everything();
        assert!(!is_current(&project));
        assert!(succeeds(&project.evenkeel(&["init"])).contains("cargo evenkeel remove"));
        is_on_evenkeel(&project.cargo(&["tree", "--locked"]));
        is_on_evenkeel(&project.evenkeel(&["tree", "--locked"]));
        assert!(project.read(CONFIG).starts_with(config.unwrap_or_default()));
        assert!(is_current(&project));
        for name in [CONFIG, &copy(&project)] {
            let file = fs::metadata(project.path().join(name)).unwrap();
            let new = fs::metadata(
                project
                    .path()
                    .join(if file.is_dir() { "src" } else { LOCK }),
            );
            assert_eq!(file.permissions(), new.unwrap().permissions(), "{name}");
        }

        let made = project.everything();
        succeeds(&project.evenkeel(&["init"]));
        assert!(
            project.everything() == made,
            "the second time changed something"
        );
        succeeds(&project.evenkeel(&["remove"]));
        assert!(project.everything() == before, "something is left");
        succeeds(&project.evenkeel(&["remove"]));
        assert!(project.everything() == before);
    }
}

#[test]
fn a_project_without_a_lock_file_has_none_again() {
    let project = unlocked(FULL);
    let before = project.everything();
    succeeds(&project.evenkeel(&["init"]));
    is_on_evenkeel(&project.cargo(&["tree", "--locked"]));
    succeeds(&project.evenkeel(&["remove"]));
    assert!(project.everything() == before, "something is left");
}

#[test]
fn what_people_changed_since_stays() {
    let project = project();
    let plain = project.read(LOCK);
    succeeds(&project.evenkeel(&["init"]));
    let more = "added = { path = \"added\" }\n";
    project.append("Cargo.toml", more);
    project.add("added", "added", "0.1.0", "");
    succeeds(&project.cargo(&["metadata"]));
    project.append(CONFIG, "[build]\njobs = 1\n");
    // Also if it is made again since.
    fs::remove_dir_all(project.path().join(copy(&project))).unwrap();
    succeeds(&project.evenkeel(&["init"]));
    assert!(is_current(&project));
    succeeds(&project.evenkeel(&["remove"]));
    assert_eq!(project.read(CONFIG), "[build]\njobs = 1\n");
    assert!(!project.has(".cargo/evenkeel"));
    // As if it had been added without Evenkeel.
    let with = project.read(LOCK);
    project.write(LOCK, &plain);
    succeeds(&project.cargo(&["metadata"]));
    assert_eq!(with, project.read(LOCK));
}

#[test]
fn an_update_of_tokio_leaves_the_copy_in_its_place() {
    let project = unlocked("tokio = { version = \"1\", features = [\"full\"] }");
    project.write(LOCK, &support::project().read(LOCK));
    succeeds(&project.evenkeel(&["init"]));
    succeeds(&project.cargo(&["update", "-p", "tokio"]));
    is_on_evenkeel(&project.cargo(&["tree", "--locked"]));
    assert!(is_current(&project));
}

#[test]
fn a_lock_file_with_tokio_itself_is_told_and_mended() {
    let project = project();
    let lock = project.read(LOCK);
    succeeds(&project.evenkeel(&["init"]));
    project.write(LOCK, &lock);
    assert!(!is_current(&project));
    fails(
        &project.evenkeel(&["check"]),
        &["has tokio 1.54.1 itself", "Run `cargo evenkeel init`"],
    );
    succeeds(&project.evenkeel(&["init"]));
    assert!(is_current(&project));
    succeeds(&project.evenkeel(&["remove"]));
    assert_eq!(project.read(LOCK), lock);
}

/// A team may have one project on several systems.
#[test]
fn on_windows_the_copy_is_tokio_as_it_was() {
    let project = project();
    succeeds(&project.evenkeel(&["init"]));
    let tree = |target: &str| {
        let mut command = project.command("cargo");
        // The packages of other platforms may be missing.
        command.env_remove("CARGO_NET_OFFLINE");
        succeeds(
            &command
                .args(["tree", "--locked", "--target", target])
                .output()
                .unwrap(),
        )
    };
    let on_linux = tree("x86_64-unknown-linux-gnu");
    assert!(on_linux.contains("evenkeel-beneath v"), "{on_linux}");
    let on_windows = tree("x86_64-pc-windows-msvc");
    assert!(on_windows.contains("tokio v1.54.1 ("), "{on_windows}");
    for name in ["evenkeel-beneath", "tokio-traits"] {
        assert!(!on_windows.contains(name), "{on_windows}");
    }
}

#[test]
fn a_checkout_without_the_copy_gets_it_again() {
    let project = project();
    let lock = project.read(LOCK);
    succeeds(&project.evenkeel(&["init"]));
    let config = project.read(CONFIG);
    fs::remove_dir_all(project.path().join(".cargo/evenkeel")).unwrap();
    assert!(!project.cargo(&["metadata"]).status.success());
    fails(
        &project.evenkeel(&["check"]),
        &["the copy is not in", "Run `cargo evenkeel init`"],
    );
    succeeds(&project.evenkeel(&["init"]));
    assert_eq!(project.read(CONFIG), config);
    is_on_evenkeel(&project.cargo(&["tree", "--locked"]));
    succeeds(&project.evenkeel(&["remove"]));
    assert_eq!(project.read(LOCK), lock);
}

#[test]
fn another_cargo_evenkeel_makes_it_anew() {
    let project = project();
    let before = project.everything();
    succeeds(&project.evenkeel(&["init"]));
    let (new, old) = (copy(&project), ".cargo/evenkeel/tokio-1.54.1-0ther");
    fs::rename(project.path().join(&new), project.path().join(old)).unwrap();
    project.write(CONFIG, &project.read(CONFIG).replace(&new, old));
    is_on_evenkeel(&project.cargo(&["tree", "--locked"]));
    assert!(!is_current(&project));
    fails(
        &project.evenkeel(&["check"]),
        &["another version of cargo-evenkeel"],
    );
    succeeds(&project.evenkeel(&["init"]));
    assert!(is_current(&project) && !project.has(old));
    succeeds(&project.evenkeel(&["remove"]));
    assert!(project.everything() == before, "something is left");
}

#[test]
fn a_project_that_cannot_be_built_on_evenkeel_is_left_as_it_was() {
    let project = project();
    project.append(
        "Cargo.toml",
        "old = { package = \"tokio\", path = \"old\" }\n",
    );
    project.add("old", "tokio", "0.2.1", "");
    succeeds(&project.cargo(&["metadata"]));
    let before = project.everything();
    fails(&project.evenkeel(&["init"]), &["before Tokio 1"]);
    assert!(project.everything() == before, "something is left");
}

#[test]
fn a_configuration_without_room_is_told() {
    let project = project();
    project.write(CONFIG, "patch = { crates-io = {} }\n");
    let before = project.everything();
    fails(
        &project.evenkeel(&["init"]),
        &["config.toml", "inline", "[patch.crates-io]"],
    );
    assert!(project.everything() == before, "something is left");
}

#[test]
fn changed_lines_are_told() {
    let project = project();
    succeeds(&project.evenkeel(&["init"]));
    project.write(
        CONFIG,
        &project
            .read(CONFIG)
            .replace("path = \".cargo", "path = \"./.cargo"),
    );
    fails(
        &project.evenkeel(&["init"]),
        &["somebody has changed the lines", "Take out what is left"],
    );
}

/// Without it, nobody knows where the lines end. What they point to has to stay until they go.
#[test]
fn a_lost_mark_is_told_and_nothing_is_removed() {
    for mark in ["# >>> Evenkeel", "# <<< Evenkeel"] {
        let project = project();
        succeeds(&project.evenkeel(&["init"]));
        let text = project.read(CONFIG);
        let rest = text.lines().filter(|line| !line.starts_with(mark));
        let rest: String = rest.map(|line| format!("{line}\n")).collect();
        project.write(CONFIG, &rest);
        let before = project.everything();
        for command in [&["remove"][..], &["init"], &["init", "--check"]] {
            fails(
                &project.evenkeel(command),
                &["Take out what is left of them"],
            );
        }
        assert!(project.everything() == before, "something has gone");
    }
}

#[test]
fn a_killed_init_is_completed_or_undone_by_the_next_call() {
    let made = project();
    let lock = made.read(LOCK);
    succeeds(&made.evenkeel(&["init"]));
    let (ours, config) = (made.read(LOCK), made.read(CONFIG));
    let receipt = made.read(".cargo/evenkeel/receipt.toml");
    let after = receipt
        .lines()
        .find(|line| line.starts_with("lock-after"))
        .unwrap();
    let begun = receipt.replace(after, "lock-after = \"\"");
    for (config, last) in [
        (None, &lock),
        (Some(&config), &lock),
        (Some(&config), &ours),
    ] {
        for mend in ["init", "remove"] {
            let project = project();
            let before = project.everything();
            project.write(".cargo/evenkeel/receipt.toml", &begun);
            project.write(".cargo/evenkeel/Cargo.lock.before", &lock);
            if let Some(config) = config {
                project.write(CONFIG, config);
            }
            project.write(LOCK, last);
            succeeds(&project.evenkeel(&[mend]));
            if mend == "init" {
                assert!(is_current(&project));
                succeeds(&project.evenkeel(&["remove"]));
            }
            assert!(project.everything() == before, "something is left");
        }
    }
}

#[test]
fn a_workspace_has_it_at_its_root() {
    let project = project();
    let members = "[workspace]\nresolver = \"3\"\nmembers = [\"a\"]\n";
    project.write("Cargo.toml", members);
    project.add("a", "project", "0.1.0", FULL);
    let mut within = project.call();
    within.current_dir(project.path().join("a"));
    succeeds(&within.args(["init"]).output().unwrap());
    assert!(project.has(CONFIG) && !project.has("a/.cargo"));
    let mut plain = project.command("cargo");
    is_on_evenkeel(
        &plain
            .current_dir(project.path().join("a"))
            .arg("tree")
            .output()
            .unwrap(),
    );
    // From where cargo does not look into the project's configuration.
    let manifest = project.path().join("a/Cargo.toml");
    let mut outside = project.call();
    outside
        .current_dir("/")
        .args(["tree", "--locked", "--manifest-path"]);
    is_on_evenkeel(&outside.arg(manifest).output().unwrap());
}

#[test]
fn vendored_sources_are_vendored_again() {
    let project = project();
    let vendor = || {
        let mut command = project.command("cargo");
        // The packages of other platforms may be missing.
        command
            .env_remove("CARGO_NET_OFFLINE")
            .args(["vendor", "--locked"]);
        let output = command.output().unwrap();
        succeeds(&output);
        String::from_utf8(output.stdout).unwrap()
    };
    let sources = vendor();
    project.write(CONFIG, &sources);
    fails(
        &project.evenkeel(&["check"]),
        &["from the folder vendor", "`cargo vendor`"],
    );

    // As it says.
    fs::remove_file(project.path().join(CONFIG)).unwrap();
    succeeds(&project.evenkeel(&["init"]));
    let sources = vendor();
    project.append(CONFIG, &sources);
    let home = tempfile::tempdir().unwrap();
    let mut command = project.command("cargo");
    command
        .env("CARGO_HOME", home.path())
        .args(["tree", "--frozen"]);
    is_on_evenkeel(&command.output().unwrap());
}

#[test]
fn locked_is_about_the_lock_file_with_the_copy() {
    let project = project();
    succeeds(&project.evenkeel(&["init"]));
    project.append("Cargo.toml", "added = { path = \"added\" }\n");
    project.add("added", "added", "0.1.0", "");
    let lock = project.read(LOCK);
    fails(&project.evenkeel(&["tree", "--locked"]), &["--locked"]);
    assert_eq!(project.read(LOCK), lock);
    is_on_evenkeel(&project.evenkeel(&["tree"]));
}

#[test]
fn the_last_lock_file_without_evenkeel_is_the_one_that_comes_back() {
    let project = project();
    let lock = project.read(LOCK);
    succeeds(&project.evenkeel(&["init"]));
    // Ours is changed, so that what was before it is out of date.
    let manifest = project.read("Cargo.toml");
    project.write(
        "Cargo.toml",
        &format!("{manifest}added = {{ path = \"added\" }}\n"),
    );
    project.add("added", "added", "0.1.0", "");
    succeeds(&project.cargo(&["metadata"]));
    fs::remove_dir_all(project.path().join(copy(&project))).unwrap();
    succeeds(&project.evenkeel(&["init"]));
    // Somebody puts one without Evenkeel there.
    project.write("Cargo.toml", &manifest);
    let theirs = format!("# Theirs.\n{lock}");
    project.write(LOCK, &theirs);
    succeeds(&project.evenkeel(&["init"]));
    succeeds(&project.evenkeel(&["remove"]));
    assert_eq!(project.read(LOCK), theirs);
}
