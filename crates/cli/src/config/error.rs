//! The reason why settings are refused. It names the key, the value, its source, and the valid values.

use super::source::SettingSource;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the configuration file {} cannot be read", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the configuration file {} is not TOML: {said}", path.display())]
    NotToml { path: PathBuf, said: String },
    #[error("{from}: there is no setting {key:?}; {known}")]
    Unknown { key: String, from: SettingSource, known: String },
    #[error("{key} = {value:?} (from {from}): {reason}")]
    Invalid { key: &'static str, value: String, from: SettingSource, reason: String },
    #[error("{key}: its file {} (named by {from}) cannot be used: {said}", path.display())]
    SecretFile { key: &'static str, path: PathBuf, from: Box<SettingSource>, said: String },
    #[error("{key} is given twice, as itself ({from}) and by a file ({file}); leave one of them out")]
    GivenTwice { key: &'static str, file: String, from: SettingSource },
    /// Understood, and not done.
    #[error("{key} = {value:?} (from {from}) is refused: {reason}")]
    Refused { key: &'static str, value: String, from: SettingSource, reason: String },
}

impl Error {
    /// True if the mistake is in the call of the program, rather than in the requested work.
    pub(crate) const fn is_usage(&self) -> bool {
        !matches!(self, Self::Refused { .. })
    }
}
