//! The layers, one over the other. Each value is text until all layers are in, and remembers where it came from.

use super::{
    Error,
    keys::{self, AUTH_ADMIN_TOKEN, KEYS, Key},
};
use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Default,
    File(PathBuf),
    Environment(String),
    Flag(String),
}

impl Source {
    /// One word, for programs.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File(_) => "file",
            Self::Environment(_) => "env",
            Self::Flag(_) => "flag",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Environment(variable) => write!(f, "environment {variable}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) text: String,
    pub(crate) from: Source,
}

#[derive(Clone, Debug)]
pub(crate) struct Layers {
    given: BTreeMap<&'static str, Given>,
    /// `PUNCTUAL_…` variables that are no setting. Not refused: clusters put such variables into every container.
    pub(crate) unused_variables: Vec<String>,
}

impl Layers {
    pub(crate) fn defaults() -> Self {
        let given = |key: &Key| (key.name, Given { text: (key.default)(), from: Source::Default });
        Self { given: KEYS.iter().map(given).collect(), unused_variables: Vec::new() }
    }

    /// Another default than the usual one.
    pub(crate) fn default_to(&mut self, key: &'static str, text: impl Into<String>) {
        self.given.insert(key, Given { text: text.into(), from: Source::Default });
    }

    pub(crate) fn read_file(&mut self, path: &Path) -> Result<(), Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::Unreadable { path: path.to_owned(), source })?;
        self.file(path, &text)
    }

    pub(crate) fn file(&mut self, path: &Path, text: &str) -> Result<(), Error> {
        let not_toml = |e: toml::de::Error| Error::NotToml { path: path.to_owned(), said: e.to_string() };
        let table: toml::Table = text.parse().map_err(not_toml)?;
        let from = Source::File(path.to_owned());
        let mut flat = Vec::new();
        flatten("", table, &mut flat);
        for (key, value) in flat {
            let known = Self::key(&key, &from)?;
            self.set(known, plain(known, value, &from)?, from.clone());
        }
        Ok(())
    }

    pub(crate) fn environment(&mut self, variables: impl IntoIterator<Item = (String, String)>) {
        for (variable, value) in variables {
            if !variable.starts_with("PUNCTUAL_") || value.is_empty() {
                continue;
            }
            match KEYS.iter().find(|key| key.variable == variable) {
                Some(key) => self.set(key, value, Source::Environment(variable)),
                None if NOT_SETTINGS.contains(&variable.as_str()) => {}
                None => self.unused_variables.push(variable),
            }
        }
        self.unused_variables.sort();
    }

    pub(crate) fn flag(&mut self, flag: &str, key: &str, value: String) -> Result<(), Error> {
        let from = Source::Flag(flag.to_owned());
        let key = Self::key(key, &from)?;
        self.set(key, value, from);
        Ok(())
    }

    fn key(name: &str, from: &Source) -> Result<&'static Key, Error> {
        let unknown = || Error::Unknown { key: name.to_owned(), from: from.clone(), known: keys::known() };
        keys::find(name).ok_or_else(unknown)
    }

    fn set(&mut self, key: &Key, text: String, from: Source) {
        self.given.insert(key.name, Given { text, from });
    }

    pub(crate) fn get(&self, key: &'static str) -> Given {
        let absent = || Given { text: String::new(), from: Source::Default };
        self.given.get(key).cloned().unwrap_or_else(absent)
    }

    pub(crate) fn number<T>(&self, key: &'static str, range: std::ops::RangeInclusive<T>) -> Result<T, Error>
    where
        T: FromStr + PartialOrd + fmt::Display,
    {
        let number = self.get(key).text.parse().ok().filter(|number| range.contains(number));
        let said = || format!("must be a whole number between {} and {}", range.start(), range.end());
        number.ok_or_else(|| self.invalid(key, said()))
    }

    pub(crate) fn invalid(&self, key: &'static str, reason: impl Into<String>) -> Error {
        let Given { text, from } = self.get(key);
        Error::Invalid { key, value: shown(key, &text), from, reason: reason.into() }
    }

    pub(crate) fn refused(&self, key: &'static str, reason: impl Into<String>) -> Error {
        let Given { text, from } = self.get(key);
        Error::Refused { key, value: shown(key, &text), from, reason: reason.into() }
    }
}

/// A value as people and logs may see it: addresses without their passwords, and secrets not at all.
pub(crate) fn shown(key: &str, text: &str) -> String {
    if key == AUTH_ADMIN_TOKEN && !text.is_empty() {
        return "(set)".to_owned();
    }
    if !key.ends_with(".url") {
        return text.to_owned();
    }
    text.split(',').map(without_password).collect::<Vec<_>>().join(",")
}

/// A URL without what stands between the user's name and the host.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.trim().split_once("://") else { return url.to_owned() };
    let Some((who, host)) = rest.rsplit_once('@') else { return url.to_owned() };
    let user = who.split(':').next().unwrap_or_default();
    format!("{scheme}://{user}@{host}")
}

/// Variables of clients and of this program that are no setting of a server.
const NOT_SETTINGS: &[&str] = &["PUNCTUAL_URL", "PUNCTUAL_TOKEN", "PUNCTUAL_NAMESPACE", "PUNCTUAL_CONFIG"];

fn flatten(prefix: &str, table: toml::Table, flat: &mut Vec<(String, toml::Value)>) {
    for (name, value) in table {
        let key = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
        match value {
            toml::Value::Table(inner) => flatten(&key, inner, flat),
            value => flat.push((key, value)),
        }
    }
}

fn plain(key: &Key, value: toml::Value, from: &Source) -> Result<String, Error> {
    match value {
        toml::Value::String(text) => Ok(text),
        toml::Value::Integer(number) => Ok(number.to_string()),
        other => Err(Error::Invalid {
            key: key.name,
            value: other.to_string(),
            from: from.clone(),
            reason: format!("must be a string or a whole number, not a {}", other.type_str()),
        }),
    }
}
