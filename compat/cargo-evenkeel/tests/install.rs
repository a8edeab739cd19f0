//! `cargo evenkeel install`.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use support::{Project, VERSION, fails, project, said, succeeds};

/// A program that knows whether it was built with the lock file of ours. Tokio is for where nobody
/// builds it.
fn server(project: &Project, folder: &str) {
    let tokio = "tokio = { version = \"1\", features = [\"full\"] }\n";
    let text = support::manifest("server", "").replace("0.1.0", "0.3.7");
    let text = text.replace("[dependencies]", "[target.'cfg(windows)'.dependencies]") + tokio;
    project.write(&format!("{folder}/Cargo.toml"), &text);
    project.write(
        &format!("{folder}/build.rs"),
        "fn main() {\n    let lock = std::fs::read_to_string(\"Cargo.lock\").unwrap();\n    \
         println!(\"cargo::rustc-env=OURS={}\", lock.contains(\"tokio-traits\"));\n    \
         let at = lock.find(\"name = \\\"bytes\\\"\\nversion\").unwrap();\n    \
         println!(\"cargo::rustc-env=BYTES={}\", lock[at..].lines().nth(1).unwrap());\n}\n",
    );
    let main = "fn main() { println!(\"ours: {}, bytes {}\", env!(\"OURS\"), env!(\"BYTES\")); }\n";
    project.write(&format!("{folder}/src/main.rs"), main);
}

/// A home of cargo's whose registry is a folder: what a build on Evenkeel needs, and the program.
struct Home {
    /// A project whose vendored packages the registry is.
    project: Project,
    home: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let project = project();
        fs::create_dir(project.path().join("registry")).unwrap();
        for entry in fs::read_dir(vendored()).unwrap() {
            let entry = entry.unwrap();
            let place = project.path().join("registry").join(entry.file_name());
            std::os::unix::fs::symlink(entry.path(), place).unwrap();
        }
        let home = tempfile::tempdir().unwrap();
        let cache = home.path().join("registry/cache/index");
        fs::create_dir_all(&cache).unwrap();
        let archive = archive();
        fs::copy(&archive, cache.join(archive.file_name().unwrap())).unwrap();
        let folder = project.path().join("registry").display().to_string();
        let config =
            format!("source.crates-io.replace-with = 'it'\nsource.it.directory = '{folder}'\n");
        fs::write(home.path().join("config.toml"), config).unwrap();
        let it = Self { project, home };
        // Tokio itself, which the copy has displaced.
        unpack(&archive, &it.project.path().join("registry"));
        let tokio = format!("registry/tokio-{VERSION}");
        it.publish(&tokio, Some(&checksum(&archive)));
        server(&it.project, "registry/server");
        it.publish("registry/server", None);
        it
    }

    fn publish(&self, folder: &str, checksum: Option<&str>) {
        let zeros = "0".repeat(64);
        let text = format!(
            "{{\"files\":{{}},\"package\":\"{}\"}}",
            checksum.unwrap_or(&zeros)
        );
        self.project
            .write(&format!("{folder}/.cargo-checksum.json"), &text);
    }

    fn install(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(support::program());
        command
            .current_dir(self.home.path())
            .env("CARGO_HOME", self.home.path())
            .env_remove("CARGO_TARGET_DIR")
            .args(["evenkeel", "install", "--offline", "--debug"])
            .args(arguments);
        command.output().unwrap()
    }

    fn run(&self) -> String {
        succeeds(
            &Command::new(self.home.path().join("bin/server"))
                .output()
                .unwrap(),
        )
    }
}

/// Everything that the copy needs, as cargo vendors it.
fn vendored() -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let project = project();
        succeeds(&project.evenkeel(&["init"]));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("vendored");
        let mut vendor = project.command("cargo");
        // The packages of other platforms may be missing.
        vendor
            .env_remove("CARGO_NET_OFFLINE")
            .args(["vendor", "--locked"])
            .arg(&folder);
        succeeds(&vendor.output().unwrap());
        folder
    });
    folder.clone()
}

/// Tokio's, which cargo has fetched for the other tests.
fn archive() -> PathBuf {
    let usual = || Path::new(&std::env::var_os("HOME").unwrap()).join(".cargo");
    let home = std::env::var_os("CARGO_HOME").map_or_else(usual, PathBuf::from);
    let cache = fs::read_dir(home.join("registry/cache")).unwrap();
    let places = cache.map(|entry| entry.unwrap().path().join(format!("tokio-{VERSION}.crate")));
    places.into_iter().find(|path| path.is_file()).unwrap()
}

fn unpack(archive: &Path, to: &Path) {
    let output = Command::new("tar")
        .arg("-xzf")
        .arg(archive)
        .arg("-C")
        .arg(to)
        .output()
        .unwrap();
    succeeds(&output);
}

fn checksum(archive: &Path) -> String {
    use sha2::Digest;
    let digest = sha2::Sha256::digest(fs::read(archive).unwrap());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_published_program_is_installed() {
    let home = Home::new();
    let output = home.install(&["server"]);
    succeeds(&output);
    assert!(home.run().starts_with("ours: true"), "{}", home.run());
    assert!(!home.home.path().join("evenkeel/install/server").exists());
    // Once more, also in the version that is asked for.
    succeeds(&home.install(&["server@0.3.7", "--force"]));
    fails(&home.install(&["server", "--version", "0.3.8"]), &["0.3.8"]);
    fails(&home.install(&["no-such-program"]), &["no-such-program"]);
    fails(&home.install(&[]), &["say one of"]);
    let list = said(&home.install(&["--list"]));
    assert!(list.contains("server v0.3.7"), "{list}");
}

#[test]
fn its_own_lock_file_is_followed_but_for_tokio() {
    let home = Home::new();
    let lock = project().read("Cargo.lock");
    let at = lock.find("name = \"bytes\"").unwrap();
    let bytes = lock[at..].lines().nth(1).unwrap().to_owned();
    let old = lock
        .replace(
            "name = \"project\"\nversion = \"0.1.0\"",
            "name = \"server\"\nversion = \"0.3.7\"",
        )
        .replace(
            &format!("name = \"tokio\"\nversion = \"{VERSION}\""),
            "name = \"tokio\"\nversion = \"1.1.0\"",
        );
    home.project.write("registry/server/Cargo.lock", &old);
    let said = succeeds(&home.install(&["server", "--locked"]));
    assert!(said.contains("in place of tokio 1.1.0"), "{said}");
    let ran = home.run();
    assert!(
        ran.starts_with("ours: true") && ran.contains(&bytes),
        "{ran}"
    );
}

#[test]
fn a_program_that_pins_tokio_is_refused() {
    let home = Home::new();
    let manifest = "registry/server/Cargo.toml";
    let text = home
        .project
        .read(manifest)
        .replace("version = \"1\"", "version = \"=1.1.0\"");
    home.project.write(manifest, &text);
    fails(&home.install(&["server"]), &["1.1.0"]);
    assert!(!home.home.path().join("bin/server").exists());
}

#[test]
fn a_project_is_installed_from_its_folder_and_left_as_it_was() {
    let project = project();
    server(&project, ".");
    let before_lock = project.read("Cargo.lock");
    succeeds(&project.cargo(&["metadata"]));
    let lock = project.read("Cargo.lock");
    assert_ne!(lock, before_lock);
    let before = project.everything();
    let root = tempfile::tempdir().unwrap();
    let root = root.path().display().to_string();
    fs::remove_file(project.path().join("src/lib.rs")).unwrap_or_default();
    succeeds(&project.evenkeel(&["install", "--debug", "--path", ".", "--root", &root]));
    assert!(project.everything() == before, "something was changed");
    let ran = succeeds(&Command::new(format!("{root}/bin/server")).output().unwrap());
    assert!(ran.starts_with("ours: true"), "{ran}");
}

#[test]
fn a_program_is_installed_from_a_repository() {
    let home = Home::new();
    let source = project();
    source.write(
        "Cargo.toml",
        "[workspace]\nresolver = \"3\"\nmembers = [\"server\", \"other\"]\n",
    );
    server(&source, "server");
    source.write(
        "server/build.rs",
        "fn main() {\n    \
        println!(\"cargo::rustc-env=OURS={}\", std::fs::read_to_string(\"../Cargo.lock\").unwrap()\
        .contains(\"tokio-traits\"));\n    println!(\"cargo::rustc-env=BYTES=\");\n}\n",
    );
    source.write("other/Cargo.toml", &support::manifest("other", ""));
    source.write("other/src/main.rs", "fn main() {}\n");
    for arguments in [
        &["init", "--quiet"][..],
        &["add", "."],
        &[
            "-c",
            "user.name=x",
            "-c",
            "user.email=x@localhost",
            "commit",
            "--quiet",
            "-m",
            "x",
        ],
        &["tag", "v1"],
    ] {
        let output = Command::new("git")
            .current_dir(source.path())
            .args(arguments)
            .output();
        succeeds(&output.unwrap());
    }
    let url = source.path().display().to_string();
    fails(
        &home.install(&["--git", &url]),
        &["name one behind its URL", "server"],
    );
    succeeds(&home.install(&["--git", &url, "--tag", "v1", "server"]));
    assert!(home.run().starts_with("ours: true"), "{}", home.run());
}

#[test]
fn a_published_program_that_uses_a_published_evenkeel_has_the_one_beneath() {
    let home = Home::new();
    home.project
        .add("registry/evenkeel", "evenkeel", "0.1.0", "tokio = \"1\"");
    home.publish("registry/evenkeel", None);
    let (manifest, build) = ("registry/server/Cargo.toml", "registry/server/build.rs");
    home.project.append(manifest, "evenkeel = \"0.1\"\n");
    // Ours has no source in the lock file.
    let script = home.project.read(build).replace(
        "lock.contains(\"tokio-traits\")",
        "!lock.contains(\"\\\"evenkeel\\\"\\nversion = \\\"0.1.0\\\"\\nsource\")",
    );
    home.project.write(build, &script);
    succeeds(&home.install(&["server"]));
    assert!(home.run().starts_with("ours: true"), "{}", home.run());
}
