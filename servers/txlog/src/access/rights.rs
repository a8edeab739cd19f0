//! What may be done.

use std::fmt;
use std::str::FromStr;

/// Something that a token may allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// To append records.
    Append,
    /// To read records, and to keep positions in the log by name.
    Read,
    /// To create logs, and to list them.
    Admin,
}

impl Permission {
    /// All.
    pub const ALL: [Permission; 3] = [Permission::Append, Permission::Read, Permission::Admin];

    fn name(self) -> &'static str {
        match self {
            Permission::Append => "append",
            Permission::Read => "read",
            Permission::Admin => "admin",
        }
    }

    fn bit(self) -> u8 {
        match self {
            Permission::Append => 1,
            Permission::Read => 2,
            Permission::Admin => 4,
        }
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of permissions; as text, their names with commas between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights(u8);

impl Rights {
    /// To do nothing but ping.
    pub const NONE: Rights = Rights(0);
    /// To do everything.
    pub const ALL: Rights = Rights(7);

    /// Whether this is among them.
    pub fn allow(self, permission: Permission) -> bool {
        self.0 & permission.bit() != 0
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self == Self::NONE
    }
}

impl FromIterator<Permission> for Rights {
    fn from_iter<T: IntoIterator<Item = Permission>>(permissions: T) -> Self {
        let bits = permissions.into_iter().map(Permission::bit);
        Self(bits.fold(0, |all, bit| all | bit))
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let allowed = Permission::ALL.into_iter().filter(|it| self.allow(*it));
        let names: Vec<_> = allowed.map(Permission::name).collect();
        f.write_str(&names.join(","))
    }
}

impl FromStr for Rights {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let permission = |name: &str| {
            let known = Permission::ALL.into_iter().find(|it| it.name() == name);
            known.ok_or_else(|| {
                format!("{name:?} is no permission; there are append, read and admin")
            })
        };
        text.split(',').map(permission).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_what_their_text_says() {
        for bits in 1..8 {
            let rights = Rights(bits);
            assert_eq!(rights.to_string().parse(), Ok(rights));
        }
        let rights: Rights = "read".parse().unwrap();
        assert!(rights.allow(Permission::Read) && !rights.allow(Permission::Append));
        for wrong in ["", "write", "read,", "append, read", "READ"] {
            assert!(wrong.parse::<Rights>().is_err(), "{wrong}");
        }
        assert!(Permission::ALL.iter().all(|it| Rights::ALL.allow(*it)));
        assert!(!Permission::ALL.iter().any(|it| Rights::NONE.allow(*it)));
    }
}
