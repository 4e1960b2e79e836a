//! Secrets that stand in files of their own, and how a secret is shown: without what is secret of it. Changes no file.

use super::{Error, source::SettingSource};
use std::{fs, path::Path};

/// Reads the file as for `store.url`, for commands that use no other setting.
pub(crate) fn read_secret(path: &Path) -> Result<String, Error> {
    read(super::keys::STORE_URL, path, &SettingSource::Flag("--store-url-file".to_owned()))
}

/// The address of a bus, in the file that a variable names.
pub(crate) fn read_bus_url(variable: &str, path: &Path) -> Result<String, Error> {
    read(super::keys::HOT_URL, path, &SettingSource::Environment(variable.to_owned()))
}

/// The content of a file, without the line end that editors and `echo` add.
pub(super) fn read(key: &'static str, path: &Path, named_by: &SettingSource) -> Result<String, Error> {
    let unusable = |said: String| Error::SecretFile {
        key,
        path: path.to_owned(),
        from: Box::new(named_by.clone()),
        said,
    };
    let text = fs::read_to_string(path).map_err(|error| unusable(error.to_string()))?;
    let text = text.trim_end_matches(['\n', '\r']);
    match text {
        "" => Err(unusable("it is empty".to_owned())),
        text if text.contains('\n') => Err(unusable("it has more than one line".to_owned())),
        text => Ok(text.to_owned()),
    }
}

/// The warning at the start. Such a file is not refused, because volumes of containers often have no better mode.
pub(crate) fn is_open_to_all(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o004 != 0)
}

/// The address of Redis as people may see it.
pub(crate) fn shown_hot_url(url: &str) -> String {
    shown(super::keys::HOT_URL, url)
}

/// A value as people and logs may see it: addresses without their passwords, other secrets not at all.
pub(crate) fn shown(key: &str, text: &str) -> String {
    if key.ends_with(".url") {
        return urls(text).map(without_password).collect::<Vec<_>>().join(",");
    }
    let is_secret = super::keys::find(key).is_some_and(super::keys::SettingKey::is_secret);
    if is_secret && !text.is_empty() { "(secret)".to_owned() } else { text.to_owned() }
}

/// True if a value would show a secret.
pub(super) fn has_secret(key: &str, text: &str) -> bool {
    shown(key, text) != text
}

/// Several with commas; one has commas within: several hosts, or a password that is not encoded.
fn urls(text: &str) -> impl Iterator<Item = String> {
    let mut urls: Vec<String> = Vec::new();
    for part in text.split(',') {
        match urls.last_mut() {
            Some(last) if !part.contains("://") => {
                last.push(',');
                last.push_str(part);
            }
            _ => urls.push(part.to_owned()),
        }
    }
    urls.into_iter()
}

/// A URL without what is between the user's name and the host.
fn without_password(url: String) -> String {
    let Some((scheme, rest)) = url.trim().split_once("://") else { return url };
    let Some((who, host)) = rest.rsplit_once('@') else { return url };
    let user = who.split(':').next().unwrap_or_default();
    format!("{scheme}://{user}@{host}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_without_their_passwords_whatever_is_in_them() {
        for (url, expected) in [
            ("mysql://u:geheim@h/d", "mysql://u@h/d"),
            ("mysql://u:ge,heim@h/d", "mysql://u@h/d"),
            ("mysql://u:ge@im@h/d,mysql://v:x@i/e", "mysql://u@h/d,mysql://v@i/e"),
            ("rediss+cluster://u:ge@a:1,b:2?tls_ca=/ca", "rediss+cluster://u@a:1,b:2?tls_ca=/ca"),
            ("redis://h:6379", "redis://h:6379"),
        ] {
            assert_eq!(shown("store.url", url), expected);
            assert_eq!(has_secret("store.url", url), url != expected);
        }
        assert_eq!(shown("listen", "a:b@c"), "a:b@c");
    }

    #[test]
    fn one_line_is_read_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        let read = |text: &str| {
            fs::write(&path, text).unwrap();
            read("store.url", &path, &SettingSource::Default).map_err(|error| error.to_string())
        };
        assert_eq!(read("mysql://u:p@h/d\r\n").unwrap(), "mysql://u:p@h/d");
        for (text, part) in [("\n", "empty"), ("geheim\nzwei\n", "more than one line")] {
            let said = read(text).unwrap_err();
            assert!(said.contains(part) && !said.contains("geheim"), "{said}");
        }
    }
}
