//! The layers, one over the other. Each value is text until all layers are in, and remembers where it came from.

use super::{
    Error, inbox_tables,
    keys::{self, KEYS, SettingKey},
    otel, secrets,
    source::SettingSource,
};
use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

/// Shown without its value, which may be a secret.
#[derive(Clone)]
pub(crate) struct Given {
    pub(crate) text: String,
    pub(crate) from: SettingSource,
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Given").field("from", &self.from).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Layers {
    given: BTreeMap<&'static str, Given>,
    /// Variables that look like settings and are none. They are not refused: clusters put such variables into every
    /// container.
    pub(crate) unused_variables: Vec<String>,
    /// Warnings about settings that are accepted, and should be improved: sentences for the log.
    pub(crate) warnings: Vec<String>,
}

impl Layers {
    pub(crate) fn defaults() -> Self {
        let given =
            |key: &SettingKey| (key.name, Given { text: (key.default)(), from: SettingSource::Default });
        Self { given: KEYS.iter().map(given).collect(), unused_variables: Vec::new(), warnings: Vec::new() }
    }

    /// Another default than the usual one.
    pub(crate) fn default_to(&mut self, key: &'static str, text: impl Into<String>) {
        self.given.insert(key, Given { text: text.into(), from: SettingSource::Default });
    }

    pub(crate) fn read_file(&mut self, path: &Path) -> Result<(), Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::Unreadable { path: path.to_owned(), source })?;
        self.file(path, &text)
    }

    pub(crate) fn file(&mut self, path: &Path, text: &str) -> Result<(), Error> {
        // Not the line itself, which may hold a secret.
        let not_toml = |error: toml::de::Error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let said = format!("line {}: {}", before.lines().count().max(1), error.message());
            Error::NotToml { path: path.to_owned(), said }
        };
        let table: toml::Table = text.parse().map_err(not_toml)?;
        let from = SettingSource::File(path.to_owned());
        let mut flat = Vec::new();
        flatten("", table, &mut flat);
        let names: Vec<String> = flat.iter().map(|pair| pair.0.clone()).collect();
        for (key, value) in flat {
            if let (INBOXES, toml::Value::Array(tables)) = (key.as_str(), &value) {
                let text = inbox_tables::of_tables(tables, &from, &mut self.warnings)?;
                self.set(Self::key(keys::INBOX_URL, &from)?, text, from.clone());
                continue;
            }
            if let Some(secret) = keys::secret_of_file(&key) {
                if names.iter().any(|name| name == secret.name) {
                    return Err(Error::GivenTwice { key: secret.name, file: key, from });
                }
                self.set_from_file(secret, &plain(secret, value, &from)?, from.clone())?;
                continue;
            }
            let known = Self::key(&key, &from)?;
            self.set(known, plain(known, value, &from)?, from.clone());
        }
        Ok(())
    }

    pub(crate) fn environment(
        &mut self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(), Error> {
        let is_set = |pair: &(String, String)| !pair.1.is_empty();
        let mut variables: BTreeMap<String, String> = variables.into_iter().filter(is_set).collect();
        self.of_opentelemetry(&variables);
        variables.retain(|variable, _| variable.starts_with("PUNCTUAL_"));
        for (variable, value) in &variables {
            let from = SettingSource::Environment(variable.clone());
            match (KEYS.iter().find(|key| key.variable == variable), keys::secret_of_variable(variable)) {
                (Some(key), _) => self.set(key, value.clone(), from),
                (None, Some(secret)) if variables.contains_key(secret.variable) => {
                    let file = variable.clone();
                    let from = SettingSource::Environment(secret.variable.to_owned());
                    return Err(Error::GivenTwice { key: secret.name, file, from });
                }
                (None, Some(secret)) => self.set_from_file(secret, value, from)?,
                (None, None) if NOT_SETTINGS.contains(&variable.as_str()) => {}
                (None, None) => self.unused_variables.push(variable.clone()),
            }
        }
        Ok(())
    }

    fn of_opentelemetry(&mut self, variables: &BTreeMap<String, String>) {
        let mut set = |name: &'static str, value: &str, variable: &str| {
            let from = SettingSource::Environment(variable.to_owned());
            self.given.insert(name, Given { text: value.to_owned(), from });
        };
        for (variable, name) in otel::VARIABLES {
            if let Some(value) = variables.get(*variable) {
                set(name, value, variable);
            }
        }
        for (variable, value) in variables {
            if otel::turns_off(variable, value) {
                set(keys::TRACES_URL, "", variable);
            } else if otel::is_unused(variable) {
                self.unused_variables.push(variable.clone());
            }
        }
    }

    pub(crate) fn flag(&mut self, flag: &str, name: &str, value: String) -> Result<(), Error> {
        let from = SettingSource::Flag(flag.to_owned());
        let secret = keys::secret_of_file(name);
        let key = secret.map_or_else(|| Self::key(name, &from), Ok)?;
        let is_flag = |source: &SettingSource| matches!(source, SettingSource::Flag(_));
        let before = self.get(key.name).from;
        let was_file = matches!(&before, SettingSource::SecretFile(_, by) if is_flag(by));
        if key.is_secret() && ((secret.is_some() && is_flag(&before)) || (secret.is_none() && was_file)) {
            let file = format!("{}{}", key.name, keys::FILE_SUFFIX);
            return Err(Error::GivenTwice { key: key.name, file, from });
        }
        if secret.is_some() {
            return self.set_from_file(key, &value, from);
        }
        if secrets::has_secret(key.name, &value) {
            self.warnings.push(format!(
                "{} is a flag with a secret in it, which everybody on this machine can read in the list of processes (ps): \
                 put it into a file that only this user reads, and name that: {}{}=FILE in the environment, or {}{} in the \
                 configuration file",
                key.name,
                key.variable,
                keys::FILE_SUFFIX_OF_VARIABLES,
                key.name,
                keys::FILE_SUFFIX,
            ));
        }
        self.set(key, value, from);
        Ok(())
    }

    fn set_from_file(
        &mut self,
        key: &'static SettingKey,
        path: &str,
        from: SettingSource,
    ) -> Result<(), Error> {
        let path = PathBuf::from(path);
        let text = secrets::read(key.name, &path, &from)?;
        if secrets::is_open_to_all(&path) {
            self.warnings.push(format!(
                "everybody on this machine can read {}, where {} stands: chmod 600 it",
                path.display(),
                key.name
            ));
        }
        self.set(key, text, SettingSource::SecretFile(path, Box::new(from)));
        Ok(())
    }

    fn key(name: &str, from: &SettingSource) -> Result<&'static SettingKey, Error> {
        let unknown =
            || Error::Unknown { key: name.to_owned(), from: from.clone(), known: keys::known(name) };
        keys::find(name).ok_or_else(unknown)
    }

    fn set(&mut self, key: &SettingKey, text: String, from: SettingSource) {
        self.given.insert(key.name, Given { text, from });
    }

    pub(crate) fn get(&self, key: &'static str) -> Given {
        let absent = || Given { text: String::new(), from: SettingSource::Default };
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
        Error::Invalid { key, value: secrets::shown(key, &text), from, reason: reason.into() }
    }

    pub(crate) fn refused(&self, key: &'static str, reason: impl Into<String>) -> Error {
        let Given { text, from } = self.get(key);
        Error::Refused { key, value: secrets::shown(key, &text), from, reason: reason.into() }
    }
}

/// The tables of a file that are the setting `inbox.url`.
const INBOXES: &str = "inbox";

/// Variables of clients and of this program that are no setting of a server.
const NOT_SETTINGS: &[&str] = &[
    "PUNCTUAL_URL",
    "PUNCTUAL_PROFILE",
    "PUNCTUAL_TOKEN",
    "PUNCTUAL_NAMESPACE",
    "PUNCTUAL_CONFIG",
    "PUNCTUAL_BUS_URL",
    "PUNCTUAL_BUS_URL_FILE",
    "PUNCTUAL_CA_FILE",
    "PUNCTUAL_CLIENT_CERT",
    "PUNCTUAL_CLIENT_KEY",
];

fn flatten(prefix: &str, table: toml::Table, flat: &mut Vec<(String, toml::Value)>) {
    for (name, value) in table {
        let key = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
        match value {
            toml::Value::Table(inner) => flatten(&key, inner, flat),
            value => flat.push((key, value)),
        }
    }
}

fn plain(key: &SettingKey, value: toml::Value, from: &SettingSource) -> Result<String, Error> {
    match value {
        toml::Value::String(text) => Ok(text),
        toml::Value::Integer(number) => Ok(number.to_string()),
        toml::Value::Boolean(is_so) => Ok(is_so.to_string()),
        other => Err(Error::Invalid {
            key: key.name,
            value: secrets::shown(key.name, &other.to_string()),
            from: from.clone(),
            reason: format!("must be a string, a whole number, true or false, not a {}", other.type_str()),
        }),
    }
}
