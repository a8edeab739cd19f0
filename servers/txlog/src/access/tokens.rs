//! The file of tokens, and who is in it.
//!
//! A token is a line:
//!
//! ```text
//! # name      permissions          of the secret          logs; all if there are none
//! collector   append               sha256:9f86d0…         orders payments
//! operator    append,read,admin    sha256:60303a…
//! ```
//!
//! The log without a name is written as a dot. What is behind a `#` is for people.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use txlog_client::frame::{NAME_BYTES_MAX, TOKEN_BYTES_MAX, is_name};

use super::adding::add;
use super::private::read_private;
use super::rights::Rights;
use super::secret::Digest;

/// How many tokens a file may have.
const TOKENS_MAX: usize = 1_024;

/// How many bytes the file may have.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 20;

/// The longest name of a token, in bytes.
const TOKEN_NAME_BYTES_MAX: usize = 64;

/// How the log without a name is written.
const UNNAMED: &str = ".";

/// The tokens of a server, from a file that can be read again.
pub struct Tokens {
    path: PathBuf,
    list: Mutex<Arc<[Arc<Token>]>>,
}

/// A token: by which secret it is known, and what it allows.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    name: String,
    rights: Rights,
    digest: Digest,
    /// The logs for which it is; all if there are none.
    logs: Vec<String>,
}

/// Why the file cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the tokens in {}{}: {what}", .path.display(), Line(*line))]
#[non_exhaustive]
pub struct TokensError {
    /// The file.
    pub path: PathBuf,
    /// The line, if it is one.
    pub line: Option<usize>,
    /// What is wrong, and what to do.
    pub what: String,
}

struct Line(Option<usize>);

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |line| write!(f, ", line {line}"))
    }
}

/// Why somebody is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server does not know this token; see whether it was copied whole, or replaced")]
#[non_exhaustive]
pub struct LoginError;

impl Tokens {
    /// Reads the file. It blocks.
    ///
    /// # Errors
    ///
    /// [`TokensError`]: others can read the file, or a line is no token.
    pub fn read(path: &Path) -> Result<Self, TokensError> {
        let list = Mutex::new(list(path)?);
        let path = path.to_owned();
        Ok(Self { path, list })
    }

    /// Reads the file again, and returns how many tokens it has. It blocks.
    ///
    /// # Errors
    ///
    /// As [`read`](Tokens::read); then the tokens stay as they were.
    pub fn read_again(&self) -> Result<usize, TokensError> {
        let list = list(&self.path)?;
        let count = list.len();
        *self.lock() = list;
        Ok(count)
    }

    /// Adds a token to a file, which is made if there is none. It blocks.
    ///
    /// The file is checked together with the new line before anything is changed, and replaced as a
    /// whole, by one with the same owner and mode.
    ///
    /// # Errors
    ///
    /// [`TokensError`]: the file is wrong, or would be with this token, or cannot be written. It
    /// stays as it was.
    pub fn add(path: &Path, token: &Token) -> Result<(), TokensError> {
        add(path, token)
    }

    /// Whose secret this is.
    ///
    /// # Errors
    ///
    /// [`LoginError`]: nobody's.
    pub fn login(&self, secret: &[u8]) -> Result<Arc<Token>, LoginError> {
        if secret.is_empty() || secret.len() > TOKEN_BYTES_MAX {
            return Err(LoginError);
        }
        let digest = Digest::of(secret);
        let list = Arc::clone(&self.lock());
        // All are compared, so the time does not say which was the right one, either.
        let mut found = None;
        for token in list.iter() {
            if token.digest.is(&digest) {
                found = Some(Arc::clone(token));
            }
        }
        found.ok_or(LoginError)
    }

    /// Whether this token is still in the file, as it was.
    pub(crate) fn has(&self, token: &Token) -> bool {
        self.lock().iter().any(|it| **it == *token)
    }

    fn lock(&self) -> MutexGuard<'_, Arc<[Arc<Token>]>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens")
            .field("path", &self.path)
            .field("count", &self.lock().len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// As a line of the file.
impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            rights,
            digest,
            logs,
        } = self;
        write!(f, "{name} {rights} {digest}")?;
        logs.iter().try_for_each(|log| match log.as_str() {
            "" => write!(f, " {UNNAMED}"),
            log => write!(f, " {log}"),
        })
    }
}

impl Token {
    /// A token of this secret; for all logs if there are none. The log without a name is empty, or
    /// a dot; other names are those that [`is_name`] allows.
    ///
    /// # Errors
    ///
    /// What is no name.
    pub fn new(
        name: &str,
        rights: Rights,
        secret: &[u8],
        logs: &[String],
    ) -> Result<Self, &'static str> {
        let is_of_log = |log: &String| matches!(log.as_str(), "" | UNNAMED) || is_name(log);
        if !logs.iter().all(is_of_log) {
            return Err(
                "no log has such a name: names have 1 to 64 letters, digits, `.`, `_` and `-`, and \
                 begin with a letter, a digit or `_`; a dot is the log without a name",
            );
        }
        Self::of(
            name,
            rights,
            Digest::of(secret),
            logs.iter().map(String::as_str),
        )
    }

    fn of<'a>(
        name: &str,
        rights: Rights,
        digest: Digest,
        logs: impl Iterator<Item = &'a str>,
    ) -> Result<Self, &'static str> {
        let is_visible = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if name.is_empty() || name.len() > TOKEN_NAME_BYTES_MAX || !is_visible(name) {
            return Err("a token's name has 1 to 64 visible characters");
        }
        let logs = logs.map(|log| match log {
            UNNAMED => Ok(String::new()),
            log if is_visible(log) && log.len() <= NAME_BYTES_MAX => Ok(log.to_owned()),
            _ => Err("a log's name has 1 to 64 visible characters"),
        });
        Ok(Self {
            name: name.to_owned(),
            rights,
            digest,
            logs: logs.collect::<Result<_, _>>()?,
        })
    }

    /// What it allows in this log.
    pub fn rights(&self, log: &str) -> Rights {
        match self.logs.is_empty() || self.logs.iter().any(|it| it == log) {
            true => self.rights,
            false => Rights::NONE,
        }
    }
}

fn list(path: &Path) -> Result<Arc<[Arc<Token>]>, TokensError> {
    let error = |(line, what)| TokensError {
        path: path.to_owned(),
        line,
        what,
    };
    let text = read_private(path, FILE_BYTES_MAX).map_err(|what| error((None, what)))?;
    Ok(parse_all(&text).map_err(error)?.into())
}

/// The tokens of a file with this text; or the line, if it is one, and what is wrong.
pub(super) fn parse_all(text: &str) -> Result<Vec<Arc<Token>>, (Option<usize>, String)> {
    let mut tokens: Vec<Arc<Token>> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        if line.trim().is_empty() {
            continue;
        }
        let token = parsed(line).map_err(|what| (Some(number + 1), what))?;
        let is_double = |it: &Arc<Token>| it.name == token.name || it.digest == token.digest;
        if tokens.iter().any(is_double) {
            let what = "its name or its secret is that of an earlier line; give it another";
            return Err((Some(number + 1), what.to_owned()));
        }
        tokens.push(Arc::new(token));
        if tokens.len() > TOKENS_MAX {
            return Err((None, format!("there are more than {TOKENS_MAX} of them")));
        }
    }
    Ok(tokens)
}

/// Says nothing of what is there: it may be a secret that somebody put in a wrong place.
fn parsed(line: &str) -> Result<Token, String> {
    let mut fields = line.split_ascii_whitespace();
    let (Some(name), Some(rights), Some(digest)) = (fields.next(), fields.next(), fields.next())
    else {
        return Err(
            "give a name, permissions and the digest of a secret, as `txlog token new` \
                    prints them"
                .to_owned(),
        );
    };
    let rights = rights.parse().map_err(|_| {
        "the second field has to be permissions: append, read and admin, with commas between them \
         and without spaces"
            .to_owned()
    })?;
    let digest = digest.parse().map_err(|()| {
        "the third field has to be `sha256:` and 64 hexadecimal digits, as `txlog token new` \
         prints them; the secret itself does not belong here"
            .to_owned()
    })?;
    Token::of(name, rights, digest, fields).map_err(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::access::Permission;

    /// A file that its owner alone can read, as the library for such files makes them.
    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        file
    }

    fn line(name: &str, rights: &str, logs: &[&str]) -> String {
        let logs: Vec<_> = logs.iter().map(|&log| log.to_owned()).collect();
        let secret = format!("the secret of {name}");
        let token = Token::new(name, rights.parse().unwrap(), secret.as_bytes(), &logs);
        format!("{}\n", token.unwrap())
    }

    #[test]
    fn a_token_allows_what_its_line_says_in_the_logs_that_it_names() {
        let text = line("all", "append,read,admin", &[])
            + "# for people\n\n"
            + &line("some", "read", &["orders", "."]).replace('\n', " # and behind it\n");
        let file = file(&text);
        let tokens = Tokens::read(file.path()).unwrap();
        let all = tokens.login(b"the secret of all").unwrap();
        assert_eq!(all.rights("any"), Rights::ALL);
        let some = tokens.login(b"the secret of some").unwrap();
        for log in ["orders", ""] {
            assert_eq!(
                some.rights(log),
                Rights::from_iter([Permission::Read]),
                "{log}"
            );
        }
        for log in ["order", "orders2", "ORDERS", "."] {
            assert_eq!(some.rights(log), Rights::NONE, "{log}");
        }
        for wrong in [
            "",
            "the secret of so",
            "the secret of some ",
            "The secret of some",
        ] {
            assert_eq!(tokens.login(wrong.as_bytes()), Err(LoginError), "{wrong}");
        }
        assert_eq!(tokens.login(&[b'a'; 10_000]), Err(LoginError));
        let shown = format!("{tokens:?} {all:?}");
        assert!(
            !shown.contains("sha256") && !shown.contains("the secret"),
            "{shown}"
        );
    }

    #[test]
    fn a_file_that_is_wrong_changes_nothing_and_says_where_without_what() {
        let good = line("one", "read", &[]);
        let file = file(&good);
        let tokens = Tokens::read(file.path()).unwrap();
        let one = tokens.login(b"the secret of one").unwrap();
        for (text, said) in [
            ("one read txl_0123", "does not belong here"),
            ("one write sha256:00", "permissions"),
            ("one", "give a name"),
            (good.as_str(), "an earlier line"),
        ] {
            fs::write(file.path(), format!("{good}{text}")).unwrap();
            let error = tokens.read_again().unwrap_err();
            assert_eq!(error.line, Some(2), "{error}");
            let shown = error.to_string();
            assert!(shown.contains(said) && !shown.contains("txl_"), "{shown}");
            assert!(tokens.has(&one) && tokens.login(b"the secret of one").is_ok());
        }
        let many: String = (0..=TOKENS_MAX)
            .map(|n| line(&n.to_string(), "read", &[]))
            .collect();
        fs::write(file.path(), many).unwrap();
        assert!(tokens.read_again().unwrap_err().what.contains("more than"));
        fs::write(file.path(), line("two", "read", &[])).unwrap();
        assert_eq!(tokens.read_again().unwrap(), 1);
        assert!(!tokens.has(&one));
        assert_eq!(tokens.login(b"the secret of one"), Err(LoginError));
        tokens.login(b"the secret of two").unwrap();
    }
}
