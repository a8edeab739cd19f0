//! What can go wrong, to what, and what to do.

use std::io;
use std::path::{Path, PathBuf};

/// A rule does not fit.
#[derive(Debug, thiserror::Error)]
pub enum RuleError {
    /// The rules cannot be read.
    #[error("the rules of this program cannot be read, which is a defect of it: {0}")]
    Syntax(String),
    /// The source is not as the rule expects.
    #[error("{file}: {what} (a rule is for it: {why})")]
    Misfit {
        /// The file, below the package's folder.
        file: String,
        /// What is not as expected.
        what: String,
        /// What the rule is for.
        why: String,
    },
}

/// Why a project cannot be built on Evenkeel.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder cannot be used.
    #[error("cannot {doing} {}: {source}", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Cargo could not be run.
    #[error("cannot run `{command}`: {source}")]
    Start {
        /// The command.
        command: String,
        /// Why not.
        source: io::Error,
    },
    /// Cargo failed, and has said why.
    #[error("`{0}` failed; what it said is above")]
    Cargo(String),
    /// Cargo's description of the project cannot be read.
    #[error("cargo's description of the project cannot be read: {0}")]
    Metadata(String),
    /// Cargo cannot resolve the project with the copy in Tokio's place.
    #[error("cargo cannot resolve this project with Evenkeel in it.\n{advice}")]
    Unresolved {
        /// What to do.
        advice: String,
    },
    /// The marked block in the configuration cannot be read.
    #[error(
        "somebody has changed the lines of `cargo evenkeel init` in {}.\n\
         Take out what is left of them, from `# >>> Evenkeel` to `# <<< Evenkeel`: each patch \
         whose path begins with\n`.cargo/evenkeel/`. Then run it again.",
        file.display()
    )]
    Block {
        /// The file.
        file: PathBuf,
    },
    /// What `init` has made does not fit any more.
    #[error(
        "Evenkeel was made permanent in this project, but {defect}.\nRun `cargo evenkeel init`."
    )]
    NotCurrent {
        /// What is wrong.
        defect: String,
    },
    /// A package cannot be installed as asked for.
    #[error("cannot install this: {reason}")]
    Install {
        /// Why not, and what to do.
        reason: String,
    },
    /// An option that is none.
    #[error("`{word}` is no option of this command; `cargo evenkeel --help` says what there is")]
    UnknownOption {
        /// What was written.
        word: String,
    },
    /// There is no command in the command line.
    #[error("there is no command in this line; `cargo evenkeel --help` says what there is")]
    NoCommand,
    /// A command that would change or publish the lock file of the build on Evenkeel.
    #[error(
        "`cargo {command}` works on your own lock file, which has to wait aside while Evenkeel \
         builds.\nRun `cargo {command}` itself; the next `cargo evenkeel build` follows it."
    )]
    OwnLock {
        /// The command.
        command: String,
    },
    /// A command that there is not, but for one letter or two.
    #[error("there is no command `{command}`; did you mean `{meant}`?")]
    Mistyped {
        /// What was written.
        command: String,
        /// The command that is spelled most like it.
        meant: &'static str,
    },
    /// A command that is not cargo's own.
    #[error(
        "`{command}` is none of cargo's own commands, and a program beside cargo does not hear of \
         the patch: it would build on Tokio.\n\
         Make Evenkeel permanent with `cargo evenkeel init`; then `cargo {command}` builds on it."
    )]
    Foreign {
        /// The command.
        command: String,
    },
    /// This runs within a build of the same project.
    #[error(
        "this was started by a build script or a macro, in the middle of a build of the same \
         project, {}.\nIt cannot build that project again. Let it build another one, or move the \
         step to a program that runs cargo twice, such as a Makefile.",
        folder.display()
    )]
    Nested {
        /// The project.
        folder: PathBuf,
    },
    /// Something else is in the place of Tokio, or of the project's own Evenkeel.
    #[error(
        "`{package}` is patched already, in {place}, by {by}.\n\
         `cargo evenkeel` has to patch it itself: take that patch out."
    )]
    Patched {
        /// The package.
        package: &'static str,
        /// The file, or the option.
        place: String,
        /// What is in its place.
        by: String,
    },
    /// The project's folder cannot be written to.
    #[error(
        "{} cannot be written to ({source}), and cargo looks for a lock file nowhere else.\n\
         Build a copy of the folder, or run `cargo evenkeel init` where it can be written to.",
        folder.display()
    )]
    ReadOnly {
        /// The folder.
        folder: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The project does not use Tokio.
    #[error(
        "nothing in this project depends on `tokio` 1, so there is nothing to put Evenkeel under.\n\
         If you expected a dependency, look with `cargo tree -i tokio`."
    )]
    NoTokio,
    /// The project's lock file is one of ours, and the user's is not to be found.
    #[error(
        "{} is that of a build on Evenkeel, which was killed: the cargo that it had started went \
         on.\nTake yours from version control, or have plain cargo make one of it: run \
         `cargo check`, which locks Tokio to the newest that fits.",
        path.display()
    )]
    Lost {
        /// The lock file.
        path: PathBuf,
    },
    /// Tokio does not come from the registry.
    #[error(
        "tokio {version} of this project comes from a path, a repository or another patch, and \
         Evenkeel can stand in for the published package only.\n\
         Look for `tokio` in the manifests and in cargo's configuration."
    )]
    Elsewhere {
        /// The version in the lock file.
        version: String,
    },
    /// The version is not supported.
    #[error("this project is locked to tokio {found}; supported are {supported}.\n{advice}")]
    Unsupported {
        /// The version in the lock file.
        found: String,
        /// Those there are rules for.
        supported: String,
        /// What to do.
        advice: String,
    },
    /// The source of a package is not on this machine.
    #[error(
        "the source of tokio {version} is not on this machine, and cargo may not fetch it.\n\
         Run `cargo fetch` where there is a network, and try again."
    )]
    NoSource {
        /// The version that is missing.
        version: String,
    },
    /// A package is not what cargo knows under this name.
    #[error(
        "{}: its checksum is {found}, and the lock file says {expected}.\n\
         The file is damaged, or was changed. Remove it, and run `cargo fetch`.",
        path.display()
    )]
    Checksum {
        /// The archive.
        path: PathBuf,
        /// What it has.
        found: String,
        /// What it should have.
        expected: String,
    },
    /// The rules do not fit the source.
    #[error("tokio {version} is not as this program knows it: {source}\n{advice}")]
    Rule {
        /// The version.
        version: String,
        /// Which rule, and why.
        source: RuleError,
        /// What to do.
        advice: String,
    },
    /// A package uses another Tokio.
    #[error(
        "{users} would not run on Evenkeel: the graph has another `tokio` beside ours, {other}.\n\
         Evenkeel stands in for {version} only. {advice}"
    )]
    AnotherTokio {
        /// The packages that use it.
        users: String,
        /// Its version and source.
        other: String,
        /// Ours.
        version: String,
        /// What to do.
        advice: String,
    },
    /// A package uses another Evenkeel than the one beneath Tokio.
    #[error(
        "{users} would not use the runtime beneath Tokio: the graph has another `evenkeel` beside \
         ours, {other}.\n{advice}"
    )]
    AnotherEvenkeel {
        /// The packages that use it.
        users: String,
        /// Its version and place.
        other: String,
        /// What to do.
        advice: String,
    },
    /// Features of Evenkeel that cannot be had beneath Tokio.
    #[error(
        "`evenkeel` cannot have features that are about Tokio's runtime, as it is beneath that.\n\
         Leave them out, and use what Tokio's own interface has:\n\
         {features}\n\
         Or build with plain cargo: a program with #[evenkeel::main] runs on Evenkeel as it is."
    )]
    LeftOut {
        /// A list: their names, where they are asked for, and what to use in their place.
        features: String,
    },
    /// The project uses Evenkeel itself, and not Tokio's runtime.
    #[error(
        "{users}: this project uses `evenkeel` itself, and tokio lacks the feature \
         rt-multi-thread, so there is\nnothing to put Evenkeel under. Build it with plain cargo; \
         or ask for that feature, and use #[tokio::main]."
    )]
    NothingAbove {
        /// The packages that use Evenkeel.
        users: String,
    },
    /// The configuration has its patches in a form that takes no more of them.
    #[error(
        "{} has a `[patch]` that is written inline, which cannot be added to. Write it as tables: \
         `[patch.crates-io]`,\nand a line for each package below.",
        file.display()
    )]
    NoRoom {
        /// The file.
        file: PathBuf,
    },
    /// A manifest or configuration is not TOML.
    #[error("{} is not valid TOML: {reason}", path.display())]
    Toml {
        /// The file.
        path: PathBuf,
        /// Where and why.
        reason: String,
    },
}

/// Says what was tried with a file.
pub fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File {
        doing,
        path,
        source,
    }
}
