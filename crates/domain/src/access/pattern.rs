//! Names that a token reaches: all, those with a beginning, one.

use crate::name::{NAME_LEN_MAX, Name};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// `*`, `mail-*`, or a name in its current state.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Pattern {
    All,
    /// The prefix without the star. It is neither empty nor longer than a name.
    Prefix(String),
    Exact(Name),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no pattern: use * for all, a name such as mail, or the beginning of one with a star, such as mail-*"
)]
pub struct InvalidPattern(pub String);

impl Pattern {
    #[must_use]
    pub fn matches(&self, name: &Name) -> bool {
        match self {
            Self::All => true,
            Self::Prefix(prefix) => name.as_str().starts_with(prefix.as_str()),
            Self::Exact(exact) => exact == name,
        }
    }

    /// True if this pattern matches every name that `other` matches.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, _) => true,
            (Self::Prefix(_) | Self::Exact(_), Self::All) | (Self::Exact(_), Self::Prefix(_)) => false,
            (Self::Prefix(mine), Self::Prefix(theirs)) => theirs.starts_with(mine.as_str()),
            (_, Self::Exact(name)) => self.matches(name),
        }
    }
}

impl FromStr for Pattern {
    type Err = InvalidPattern;

    fn from_str(text: &str) -> Result<Self, InvalidPattern> {
        let odd = || InvalidPattern(text.chars().take(NAME_LEN_MAX + 1).collect());
        match text.strip_suffix('*') {
            Some("") => Ok(Self::All),
            Some(prefix) => {
                Name::new(prefix).map(|name| Self::Prefix(name.as_str().to_owned())).map_err(|_| odd())
            }
            None => Name::new(text).map(Self::Exact).map_err(|_| odd()),
        }
    }
}

impl TryFrom<String> for Pattern {
    type Error = InvalidPattern;
    fn try_from(text: String) -> Result<Self, InvalidPattern> {
        text.parse()
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.to_string()
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("*"),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
            Self::Exact(name) => fmt::Display::fmt(name, f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        text.parse().unwrap()
    }

    #[test]
    fn a_pattern_matches_all_a_beginning_or_one_name() {
        let name = |text| Name::new(text).unwrap();
        for (text, yes, no) in [
            ("*", vec!["a", "mail"], vec![]),
            ("mail-*", vec!["mail-", "mail-eu"], vec!["mail", "xmail-", "Mail-eu"]),
            ("mail", vec!["mail"], vec!["mail-eu", "mai"]),
        ] {
            assert!(yes.iter().all(|word| pattern(text).matches(&name(word))), "{text}");
            assert!(!no.iter().any(|word| pattern(text).matches(&name(word))), "{text}");
            assert_eq!(pattern(text).to_string(), text);
        }
    }

    #[test]
    fn what_is_neither_a_name_nor_its_beginning_is_no_pattern() {
        for text in ["", "**", "a*b", "*a", "a b*", "é*", &format!("{}*", "x".repeat(NAME_LEN_MAX + 1))] {
            assert!(text.parse::<Pattern>().is_err(), "{text:?}");
        }
    }

    /// Compared with the definition: a pattern covers another if it matches every name that the other
    /// matches.
    #[test]
    fn covering_is_matching_every_name_that_the_other_matches() {
        let patterns = ["*", "a*", "ab*", "b*", "a", "ab", "abc"].map(pattern);
        let names = ["a", "ab", "abc", "ac", "b", "ba", "c"].map(|name| Name::new(name).unwrap());
        for mine in &patterns {
            for theirs in &patterns {
                let all = names.iter().filter(|name| theirs.matches(name)).all(|name| mine.matches(name));
                // A name and its own beginning with a star differ only in names that are not in the list.
                let covers = mine.covers(theirs);
                assert!(!covers || all, "{mine} {theirs}");
                let is_exact = matches!(theirs, Pattern::Exact(_));
                assert!(
                    covers || !all || (matches!(mine, Pattern::Exact(_)) && !is_exact),
                    "{mine} {theirs}"
                );
            }
        }
    }
}
