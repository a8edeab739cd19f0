//! Clients of a real database.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use super::Failure;
use super::messages::installed;
use super::process::Process;
use super::stage::{Stage, expect, free};

/// sqlx makes a database and its tables, which tokio-postgres fills; sqlx removes them.
pub(super) fn postgres(stage: &mut Stage) -> Result<(), Failure> {
    let address = free()?;
    let mut server = start(stage, address)?;
    let migrations = stage.folder().join("migrations");
    fs::create_dir(&migrations)?;
    let up = "CREATE TABLE note (id int PRIMARY KEY, body text NOT NULL)";
    fs::write(migrations.join("1_note.up.sql"), up)?;
    fs::write(migrations.join("1_note.down.sql"), "DROP TABLE note")?;
    let source = migrations.display().to_string();
    let url = format!("postgres://postgres@{address}/trial");
    stage.run("sqlx", &["database", "create", "-D", &url])?;
    let migrate = |stage: &mut Stage, what: &str, expected: &str| {
        let words = ["migrate", what, "--source", &source, "-D", &url];
        let said = stage.run("sqlx", &words)?;
        let has = said.contains(expected);
        expect(
            &format!("sqlx migrate {what} said {said:?}, with {expected}"),
            &has,
            &true,
        )
    };
    migrate(stage, "info", "1/pending")?;
    migrate(stage, "run", "1/migrate")?;
    migrate(stage, "info", "1/installed")?;
    let config = format!(
        "host=127.0.0.1 port={} user=postgres dbname=trial",
        address.port()
    );
    let said = stage.run("postgres", &[&config])?;
    let expected = "200 inserted, 1600 read, 1 notification, cancelled: true";
    expect("postgres", &said.trim(), &expected)?;
    migrate(stage, "revert", "1/revert")?;
    stage.run("sqlx", &["database", "drop", "-y", "-D", &url])?;
    // Its processes end with it, which they would not if it were killed.
    server.signal(Signal::INT)?;
    server.ends_well()
}

/// PostgreSQL with a database of its own. It refuses to run as root.
fn start(stage: &mut Stage, address: SocketAddr) -> Result<Process, Failure> {
    let folders = debian();
    let (make, serve) = (
        installed("initdb", &folders)?,
        installed("postgres", &folders)?,
    );
    let data = stage.folder().join("data");
    fs::create_dir(&data)?;
    let user = rustix::process::geteuid().is_root().then(unprivileged);
    let user = user.transpose()?;
    if let Some((user, group)) = user {
        fs::set_permissions(stage.folder(), fs::Permissions::from_mode(0o711))?;
        chown(&data, Some(user), Some(group))?;
    }
    let command = |program: &Path| {
        let mut command = Command::new(program);
        if let Some((user, group)) = user {
            command.uid(user).gid(group);
        }
        command.env("LC_ALL", "C").arg("-D").arg(&data);
        command
    };
    let mut make = command(&make);
    make.args(["--no-sync", "-U", "postgres", "-A", "trust"]);
    stage.start_command("initdb", &mut make)?.ends_well()?;
    let mut serve = command(&serve);
    serve.args([
        "-h",
        "127.0.0.1",
        "-F",
        "-p",
        &address.port().to_string(),
        "-k",
    ]);
    let mut server = stage.start_command("postgres-server", serve.arg(&data))?;
    // It listens some time before it answers.
    let ready = "database system is ready to accept connections";
    server.wait_for("to be ready", |it| it.errors().contains(ready))?;
    Ok(server)
}

/// Where Debian keeps what users do not call.
fn debian() -> Vec<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    versions
        .flatten()
        .map(|entry| entry.path().join("bin"))
        .collect()
}

/// The user and the group of PostgreSQL, or those of nobody.
fn unprivileged() -> Result<(u32, u32), Failure> {
    let text = fs::read_to_string("/etc/passwd")?;
    let find = |name: &str| {
        let fields = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let of = |fields: Vec<&str>| match fields[..] {
            [user, _, id, group, ..] if user == name => {
                Some((id.parse().ok()?, group.parse().ok()?))
            }
            _ => None,
        };
        fields.into_iter().find_map(of)
    };
    let missing = || Failure::Missing("there is no user to run PostgreSQL as".into());
    find("postgres")
        .or_else(|| find("nobody"))
        .ok_or_else(missing)
}
