//! Where the value of a setting comes from. A leaf: must never import another part of the configuration.

use std::{fmt, path::PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SettingSource {
    Default,
    File(PathBuf),
    Environment(String),
    Flag(String),
    /// The value of a secret: its file, and what names that.
    SecretFile(PathBuf, Box<SettingSource>),
}

impl SettingSource {
    /// One word, for programs.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File(_) => "file",
            Self::Environment(_) => "env",
            Self::Flag(_) => "flag",
            Self::SecretFile(_, named_by) => named_by.word(),
        }
    }
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Environment(variable) => write!(f, "environment {variable}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
            Self::SecretFile(path, named_by) => write!(f, "file {}, named by {named_by}", path.display()),
        }
    }
}
