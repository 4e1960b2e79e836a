//! Names that users choose: namespaces, queues, kinds. They occur in URLs, keys and metrics labels, so they
//! are checked here once, and shared afterwards.

use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

/// Longest name, in bytes.
pub const NAME_LEN_MAX: usize = 128;

/// Letters, digits and `. _ : -`, 1 to 128 bytes: safe in a URL path, a Redis key and a metrics label.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(Arc<str>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a name: use 1 to {NAME_LEN_MAX} of the characters A-Z a-z 0-9 . _ : -, and more than one or two dots"
)]
pub struct InvalidName(pub String);

impl Name {
    /// # Errors
    /// When `text` is empty, too long, or has another character.
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
        if text.is_empty() || text.len() > NAME_LEN_MAX || !text.bytes().all(plain) {
            return Err(InvalidName(text.chars().take(NAME_LEN_MAX + 1).collect()));
        }
        Ok(Self(text.into()))
    }

    /// A newly chosen name. It may not be `.` or `..` either, because clients remove those from a URL. A task
    /// that an older build stored under such a name is still read, by [`Name::new`].
    ///
    /// # Errors
    /// Checks like [`Name::new`], and also refuses these two names.
    pub fn chosen(text: &str) -> Result<Self, InvalidName> {
        match text {
            "." | ".." => Err(InvalidName(text.to_owned())),
            _ => Self::new(text),
        }
    }

    /// The namespace of callers that name none.
    #[must_use]
    pub fn default_namespace() -> Self {
        Self("default".into())
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Name {
    type Error = InvalidName;
    fn try_from(text: String) -> Result<Self, InvalidName> {
        Self::new(&text)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0.as_ref().to_owned()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// A queue is named within its namespace; the pair identifies its limits, metrics and lines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueKey {
    pub namespace: Name,
    pub queue: Name,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_short_and_not_empty() {
        for good in ["a", "orders.v2", "eu:mail_1", &"x".repeat(NAME_LEN_MAX)] {
            assert_eq!(Name::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "a b", "a/b", "é", "a\n", &"x".repeat(NAME_LEN_MAX + 1)] {
            assert!(Name::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_step_of_a_path_is_not_chosen_as_a_name_and_still_read() {
        for step in [".", ".."] {
            assert!(Name::chosen(step).is_err() && Name::new(step).is_ok(), "{step}");
        }
        assert!(Name::chosen("...").is_ok() && Name::chosen(".a").is_ok() && Name::chosen("").is_err());
    }
}
