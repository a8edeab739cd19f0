//! Projects that depend on Evenkeel as well as on Tokio: theirs is the one beneath.

mod support;

use std::process::Command;
use support::{Project, fails, is_on_evenkeel, manifest, project, said, succeeds};

const CONFIG: &str = ".cargo/config.toml";
const LOCK: &str = "Cargo.lock";

/// What the tests depend on in Evenkeel's place: a package of its name.
fn write_evenkeel(project: &Project, folder: &str, version: &str) {
    let features = "\n[features]\ntokio-context = []\n";
    let text = manifest("evenkeel", "tokio = \"1\"").replace("0.1.0", version) + features;
    project.write(&format!("{folder}/Cargo.toml"), &text);
    project.write(&format!("{folder}/src/lib.rs"), "");
}

/// A project that depends on this.
fn with(dependency: &str) -> Project {
    let project = project();
    project.append("Cargo.toml", &format!("{dependency}\n"));
    project
}

/// A project with one of these at a path.
fn by_path() -> Project {
    let project = with("evenkeel = { path = \"its own\" }");
    write_evenkeel(&project, "its own", "0.1.0");
    succeeds(&project.cargo(&["metadata"]));
    project
}

/// Tokio and the project's Evenkeel depend on the one that there is.
#[track_caller]
fn is_one(mut command: Command) {
    let output = command.args(["tree", "-i", "evenkeel-beneath", "--depth", "2"]);
    let said = succeeds(&output.output().unwrap());
    assert_eq!(said.matches("evenkeel v0.1.0 (").count(), 1, "{said}");
    for part in [
        "/evenkeel)\n",
        "── tokio v1.54.1 (",
        "   └── project v0.1.0 (",
    ] {
        assert!(said.contains(part), "no {part:?} in: {said}");
    }
    assert!(!said.contains("its own"), "{said}");
}

#[test]
fn one_by_a_path_is_the_one_beneath() {
    let project = by_path();
    let lock = project.read(LOCK);
    is_one(project.call());
    assert_eq!(project.read(LOCK), lock);
    // Again, from what was kept of the first time.
    is_one(project.call());
    assert_eq!(project.read(LOCK), lock);
    // Also where it is behind the manifest, which is nobody's to mend but the user's.
    project.append("Cargo.toml", "added = { path = \"added\" }\n");
    project.add("added", "added", "0.1.0", "");
    is_one(project.call());
    succeeds(&project.evenkeel(&["doctor"]));
    assert_eq!(project.read(LOCK), lock);
}

#[test]
fn one_that_the_lock_file_does_not_know_yet_is_the_one_beneath() {
    let project = with("evenkeel = { path = \"its own\" }");
    write_evenkeel(&project, "its own", "0.1.0");
    is_one(project.call());
}

#[test]
fn one_that_is_not_asked_for_now_is_in_nobodys_way() {
    let mut projects = vec![by_git(", optional = true")];
    for needs in [
        "evenkeel = { path = \"its own\", optional = true }",
        "[target.'cfg(windows)'.dependencies]\nevenkeel = { path = \"its own\" }",
    ] {
        let project = with(needs);
        write_evenkeel(&project, "its own", "0.1.0");
        succeeds(&project.cargo(&["metadata"]));
        projects.push(project);
    }
    for project in projects {
        let lock = project.read(LOCK);
        is_on_evenkeel(&project.evenkeel(&["tree"]));
        assert_eq!(project.read(LOCK), lock);
        succeeds(&project.evenkeel(&["init"]));
        is_on_evenkeel(&project.cargo(&["tree"]));
        let all = ["tree", "--all-features", "--target", "all"];
        let said = succeeds(&project.cargo(&[&all[..], &["-i", "evenkeel-beneath"]].concat()));
        assert!(
            said.matches("evenkeel v0.1.0 (").count() == 1 && said.contains(" tokio v1.54.1 ("),
            "{said}"
        );
    }
}

#[test]
fn one_of_another_package_is_the_one_beneath() {
    let project = with("layer = { path = \"layer\" }");
    let needs = "evenkeel = { path = \"../its own\", version = \"0.1.0\" }";
    project.add("layer", "layer", "0.1.0", needs);
    write_evenkeel(&project, "its own", "0.1.0");
    let said = succeeds(&project.evenkeel(&["tree", "-i", "evenkeel-beneath", "--depth", "2"]));
    assert!(
        said.contains(" layer v0.1.0 (") && said.contains(" tokio v1.54.1 ("),
        "{said}"
    );
}

/// Makes a repository of a folder.
fn commit(project: &Project, folder: &str) {
    for words in [
        &["init", "--quiet", "--initial-branch=main"][..],
        &["add", "."],
        &["commit", "--quiet", "-m", "one"],
    ] {
        let mut git = project.command("git");
        git.current_dir(project.path().join(folder)).args([
            "-c",
            "user.name=n",
            "-c",
            "user.email=e@localhost",
        ]);
        succeeds(&git.args(words).output().unwrap());
    }
}

/// A project with one in a repository beside it, which is fetched.
fn by_git(reference: &str) -> Project {
    let mut project = project();
    project.keep_repositories();
    write_evenkeel(&project, "repository/crates/evenkeel", "0.1.0");
    commit(&project, "repository");
    let url = format!("file://{}/repository", project.path().display());
    let needs = format!("evenkeel = {{ git = \"{url}\"{reference} }}\n");
    project.append("Cargo.toml", &needs);
    let mut online = project.command("cargo");
    online.env_remove("CARGO_NET_OFFLINE").arg("metadata");
    succeeds(&online.output().unwrap());
    project
}

#[test]
fn one_from_a_repository_is_the_one_beneath() {
    for reference in ["", ", branch = \"main\""] {
        let project = by_git(reference);
        let lock = project.read(LOCK);
        is_one(project.call());
        assert_eq!(project.read(LOCK), lock);
    }
}

#[test]
fn it_is_the_one_beneath_for_good_and_comes_back() {
    for project in [by_path(), by_git("")] {
        let before = project.everything();
        let said = succeeds(&project.evenkeel(&["init"]));
        assert!(said.contains("patches of tokio and evenkeel"), "{said}");
        is_one(project.command("cargo"));
        is_one(project.call());
        succeeds(&project.evenkeel(&["tree", "--locked"]));
        succeeds(&project.evenkeel(&["init", "--check"]));
        let made = project.everything();
        succeeds(&project.evenkeel(&["init"]));
        assert!(project.everything() == made, "something was changed");
        succeeds(&project.evenkeel(&["remove"]));
        assert!(project.everything() == before, "something is left");
    }
}

#[test]
fn a_changed_lock_file_gets_its_revision_back() {
    let project = by_git("");
    let lock = project.read(LOCK);
    succeeds(&project.evenkeel(&["init"]));
    // So that the one before is out of date.
    project.append(LOCK, "\n");
    succeeds(&project.evenkeel(&["remove"]));
    assert_eq!(project.read(LOCK), lock);
}

#[test]
fn one_that_comes_after_init_is_told_and_mended() {
    let git = by_git("");
    let manifest = git.read("Cargo.toml");
    let (without, _) = manifest.split_once("evenkeel").unwrap();
    git.write("Cargo.toml", without);
    succeeds(&git.cargo(&["metadata"]));
    succeeds(&git.evenkeel(&["init"]));
    git.write("Cargo.toml", &manifest);
    let advice = ["another `evenkeel`", "`cargo evenkeel init` again"];
    let mut online = git.call();
    online.env_remove("CARGO_NET_OFFLINE");
    fails(&online.arg("tree").output().unwrap(), &advice);
    let check = git.evenkeel(&["init", "--check"]);
    fails(&check, &["an `evenkeel` of its own since"]);
    succeeds(&git.evenkeel(&["init"]));
    is_one(git.command("cargo"));
    succeeds(&git.evenkeel(&["init", "--check"]));
    // One by a path beside it, which cargo cannot tell from the one beneath.
    let needs = "evenkeel = { path = \"../its own\" }";
    git.append("Cargo.toml", "layer = { path = \"layer\" }\n");
    git.add("layer", "layer", "0.1.0", needs);
    write_evenkeel(&git, "its own", "0.1.0");
    fails(
        &git.evenkeel(&["tree"]),
        &["`evenkeel` by a path", "`cargo evenkeel remove`, and"],
    );
    succeeds(&git.evenkeel(&["remove"]));
    succeeds(&git.evenkeel(&["init"]));
    is_one(git.command("cargo"));

    let project = project();
    let plain = project.read(LOCK);
    succeeds(&project.evenkeel(&["init"]));
    let needs = "evenkeel = { path = \"its own\" }\n";
    project.append("Cargo.toml", needs);
    write_evenkeel(&project, "its own", "0.1.0");
    fails(&project.evenkeel(&["tree"]), &advice);
    succeeds(&project.evenkeel(&["init"]));
    is_one(project.command("cargo"));
    assert_ne!(project.read(LOCK), plain);
}

#[test]
fn the_doctor_knows_it() {
    let said = succeeds(&by_path().evenkeel(&["doctor"]));
    for part in [
        "ok    evenkeel  the one beneath tokio, used by project\n",
        "It is 0.1.0 as this program has it, in the place of that from file:///",
        // An empty one.
        "note  evenkeel  is not the one in /",
    ] {
        assert!(said.contains(part), "no {part:?} in: {said}");
    }
    let crates = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates");
    let real = with(&format!("evenkeel = {{ path = \"{crates}/evenkeel\" }}"));
    succeeds(&real.cargo(&["metadata"]));
    let said = succeeds(&real.evenkeel(&["doctor"]));
    assert!(
        said.contains("ok    evenkeel") && !said.contains("is not the one"),
        "{said}"
    );
    let said = succeeds(&project().evenkeel(&["doctor"]));
    assert!(!said.contains("evenkeel  the one"), "{said}");
}

/// A build is refused, and the doctor says the same.
#[track_caller]
fn is_refused(project: &Project, parts: &[&str]) {
    let lock = project.read(LOCK);
    fails(&project.evenkeel(&["tree"]), parts);
    let said = said(&project.evenkeel(&["doctor"]));
    assert!(said.contains("WRONG"), "{said}");
    fails(&project.evenkeel(&["init"]), parts);
    assert!(!project.has(CONFIG) && project.read(LOCK) == lock);
}

#[test]
fn one_of_another_version_is_refused() {
    let project = with("evenkeel = { path = \"its own\" }");
    write_evenkeel(&project, "its own", "0.9.0");
    succeeds(&project.cargo(&["metadata"]));
    let parts = [
        "another `evenkeel`",
        "version 0.9.0",
        "Take version 0.1.0 in the project, or the cargo-evenkeel of that version",
    ];
    is_refused(&project, &parts);
}

#[test]
fn a_member_of_the_workspace_is_refused() {
    let project = by_path();
    let members = "\n[workspace]\nmembers = [\"its own\"]\n";
    project.append("Cargo.toml", members);
    succeeds(&project.cargo(&["metadata"]));
    is_refused(
        &project,
        &["another `evenkeel`", "a member of this workspace"],
    );
}

#[test]
fn a_feature_that_cannot_be_had_is_refused() {
    let needs = |path: &str| {
        format!("evenkeel = {{ path = \"{path}its own\", features = [\"tokio-context\"] }}")
    };
    let project = with(&format!("{}\nlayer = {{ path = \"layer\" }}", needs("")));
    write_evenkeel(&project, "its own", "0.1.0");
    project.add("layer", "layer", "0.1.0", &needs("../"));
    succeeds(&project.cargo(&["metadata"]));
    let folder = project.path().canonicalize().unwrap();
    let [own, layer] = ["Cargo.toml", "layer/Cargo.toml"].map(|name| folder.join(name));
    // With all that ask for it, and with what to write in its place.
    let asked = format!(
        "- `tokio-context`, in {}, {}:",
        layer.display(),
        own.display()
    );
    is_refused(&project, &[&asked, "#[tokio::main]"]);
}

#[test]
fn a_project_without_tokios_runtime_is_told_so() {
    let project = by_path();
    let text = project
        .read("Cargo.toml")
        .replace("\"full\"", "\"io-util\"");
    project.write("Cargo.toml", &text);
    succeeds(&project.cargo(&["metadata"]));
    is_refused(
        &project,
        &["project: this project uses", "with plain cargo"],
    );
}

#[test]
fn another_patch_of_it_is_refused() {
    let project = by_path();
    write_evenkeel(&project, "mine", "0.1.0");
    let patch = "\n[patch.crates-io]\nevenkeel.path = \"mine\"\n";
    project.append("Cargo.toml", patch);
    is_refused(&project, &["`evenkeel` is patched", "take that patch out"]);
}

#[test]
fn a_program_with_one_is_installed() {
    let project = by_path();
    let root = tempfile::tempdir().unwrap();
    let mut command = project.call();
    command.args(["install", "--path", ".", "--root"]);
    let output = command.arg(root.path()).args(["--bin", "nope"]);
    // Far enough to see that the graph was resolved.
    fails(&output.output().unwrap(), &["no bin target named `nope`"]);
    is_on_evenkeel(&project.evenkeel(&["tree"]));
}
