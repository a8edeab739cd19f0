//! Secrets: how they are made, and by what they are known.

use std::fmt::{self, Write};
use std::str::FromStr;

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

/// How a secret begins, so that people and scanners see what it is.
const PREFIX: &str = "txl_";

/// How many random bytes it has. So many that nobody finds one by trying, however fast its digest
/// is computed.
const RANDOM_BYTES: usize = 32;

/// A new secret.
///
/// # Errors
///
/// The system has no random numbers.
pub fn new_secret() -> Result<String, String> {
    let mut bytes = [0; RANDOM_BYTES];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| "the system gives no random numbers".to_owned())?;
    Ok(format!("{PREFIX}{}", Hex(&bytes)))
}

/// The SHA-256 of a secret: by it a server knows the secret and cannot give it away.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Of this secret.
    pub fn of(secret: &[u8]) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, secret).as_ref());
        Self(bytes)
    }

    /// Whether they are the same, in a time that says nothing about it.
    pub(super) fn is(&self, other: &Digest) -> bool {
        constant_time_eq::constant_time_eq_32(&self.0, &other.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Digest").finish_non_exhaustive()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", Hex(&self.0))
    }
}

impl FromStr for Digest {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let hex = text.strip_prefix("sha256:").ok_or(())?;
        if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(());
        }
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).map_err(drop)?;
        }
        Ok(Self(bytes))
    }
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(2 * self.0.len());
        self.0
            .iter()
            .try_for_each(|byte| write!(text, "{byte:02x}"))?;
        f.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_sha_256_and_survives_as_text() {
        let of_nothing = Digest::of(b"").to_string();
        let known = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(of_nothing, known);
        let digest = Digest::of(b"secret");
        assert_eq!(digest.to_string().parse(), Ok(digest));
        assert!(digest.is(&Digest::of(b"secret")) && !digest.is(&Digest::of(b"Secret")));
        for wrong in [
            "",
            "sha256:",
            &known[1..],
            &known[..70],
            &format!("{known}0"),
        ] {
            assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn secrets_are_long_and_no_two_are_the_same() {
        let [one, other] = [new_secret().unwrap(), new_secret().unwrap()];
        assert_eq!(one.len(), PREFIX.len() + 2 * RANDOM_BYTES);
        assert!(one.starts_with(PREFIX) && one != other);
    }
}
