//! A configuration file with every key explained: what is set is in it, what is not is a comment with its default.

use super::{
    Layers,
    keys::{FILE_SUFFIX, KEYS, SettingKey},
    source::SettingSource,
};
use std::fmt::Write as _;

/// The part of a key before its last dot; empty: it is before all tables.
fn table(key: &SettingKey) -> &'static str {
    key.name.rsplit_once('.').map_or("", |parts| parts.0)
}

fn field(key: &SettingKey) -> &'static str {
    key.name.rsplit_once('.').map_or(key.name, |parts| parts.1)
}

/// The value in TOML syntax.
fn value(text: &str) -> String {
    if text.parse::<i64>().is_ok() || text.parse::<bool>().is_ok() {
        return text.to_owned();
    }
    toml::Value::String(text.to_owned()).to_string()
}

/// Secrets are left out, whatever is set.
pub(super) fn file(layers: &Layers) -> String {
    let mut out = String::from(
        "# Settings of Punctual. A line that begins with # is a comment: it shows a key with its default.\n\
         # Values here override defaults; environment variables override this file, and flags override all.\n\
         # A secret may stand in a file of its own: auth.admin_token_file = \"/path\" instead of auth.admin_token.\n\
         # `punctual config --config FILE` shows each value and where it came from.\n",
    );
    let mut tables: Vec<&str> = Vec::new();
    for key in KEYS {
        if !tables.contains(&table(key)) {
            tables.push(table(key));
        }
    }
    // What has no table must come first.
    tables.sort_by_key(|table| !table.is_empty());
    for name in tables {
        if !name.is_empty() {
            let _ = write!(out, "\n[{name}]\n");
        }
        KEYS.iter().filter(|key| table(key) == name).for_each(|key| entry(&mut out, key, layers));
    }
    out
}

fn entry(out: &mut String, key: &SettingKey, layers: &Layers) {
    let given = layers.get(key.name);
    let is_set = !matches!(given.from, SettingSource::Default) && !key.is_secret();
    let text = if key.is_secret() { (key.default)() } else { given.text };
    let comment = if is_set { "" } else { "# " };
    let (name, variable) = (field(key), key.variable);
    let file = if key.is_secret() {
        format!("; or, in a file of its own, {name}{FILE_SUFFIX} = \"/path\"")
    } else {
        String::new()
    };
    let _ = write!(out, "\n# {} ({variable}{file})\n{comment}{name} = {}\n", key.about, value(&text));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn effective(layers: &Layers) -> Vec<(&'static str, String)> {
        KEYS.iter().map(|key| (key.name, layers.get(key.name).text)).collect()
    }

    /// The lines that begin with a key, without their comment sign.
    fn uncommented(file: &str) -> String {
        let line = |text: &str| match text.strip_prefix("# ") {
            Some(rest) if rest.split_once(" = ").is_some_and(|parts| !parts.0.contains([' ', '('])) => {
                rest.to_owned()
            }
            _ => text.to_owned(),
        };
        file.lines().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_file_sets_nothing_but_what_was_asked_for() {
        let mut layers = Layers::defaults();
        layers.flag("--set", "data", "/var/lib/punctual".to_owned()).unwrap();
        let mut read = Layers::defaults();
        read.file(Path::new("a.toml"), &file(&layers)).unwrap();
        assert_eq!(effective(&read), effective(&layers));
        assert_eq!(read.get("data").text, "/var/lib/punctual");
    }

    #[test]
    fn every_key_stands_in_it_with_its_default() {
        let layers = Layers::defaults();
        let whole = uncommented(&file(&layers));
        let mut read = Layers::defaults();
        read.file(Path::new("a.toml"), &whole).unwrap();
        assert_eq!(effective(&read), effective(&layers));
        for key in KEYS {
            assert!(matches!(read.get(key.name).from, SettingSource::File(_)), "{}", key.name);
            assert!(whole.contains(key.about), "{}", key.name);
        }
    }

    #[test]
    fn no_secret_comes_into_it() {
        let mut layers = Layers::defaults();
        for key in KEYS.iter().filter(|key| key.is_secret()) {
            layers.flag("--set", key.name, "mysql://u:hidden@h/d".to_owned()).unwrap();
        }
        assert!(!file(&layers).contains("hidden"));
    }
}
