//! The tables `[[inbox]]` of a configuration file, as the text of the setting `inbox.url`. Must never decide what an inbox is:
//! `inboxes` reads the text.

use super::{Error, keys::INBOX_URL, secrets, source::SettingSource};
use std::path::Path;

/// The tables `[[inbox]]` of a file, as the text of `inbox.url`. An address may be in a file of its own, `url_file`.
pub(super) fn of_tables(
    tables: &[toml::Value],
    from: &SettingSource,
    warnings: &mut Vec<String>,
) -> Result<String, Error> {
    let invalid = |nth: usize, reason: String| Error::Invalid {
        key: INBOX_URL,
        value: format!("[[inbox]] {}", nth + 1),
        from: from.clone(),
        reason,
    };
    let mut parts = Vec::with_capacity(tables.len());
    for (nth, table) in tables.iter().enumerate() {
        let table = table.as_table().ok_or_else(|| invalid(nth, "must be a table".to_owned()))?;
        let field = |name: &str| match table.get(name) {
            None => Ok(None),
            Some(toml::Value::String(text)) if !text.contains([',', '#', '&']) => Ok(Some(text.as_str())),
            Some(_) => Err(invalid(nth, format!("{name} must be a string without , # &"))),
        };
        if let Some(unknown) = table.keys().find(|name| !FIELDS.contains(&name.as_str())) {
            return Err(invalid(nth, format!("has no field {unknown:?}; there are {}", FIELDS.join(", "))));
        }
        let url = match (field("url")?, field("url_file")?) {
            (Some(url), None) => url.to_owned(),
            (None, Some(file)) => url_in_file(Path::new(file), from, warnings)?,
            _ => return Err(invalid(nth, "must have url or url_file, and not both".to_owned())),
        };
        let name = field("name")?.map(|name| format!("{name}=")).unwrap_or_default();
        let mut more = Vec::new();
        for named in ["table", "namespace"] {
            more.extend(field(named)?.map(|value| format!("{named}={value}")));
        }
        let mark = if more.is_empty() { "" } else { "#" };
        parts.push(format!("{name}{url}{mark}{}", more.join("&")));
    }
    Ok(parts.join(","))
}

const FIELDS: [&str; 5] = ["name", "url", "url_file", "table", "namespace"];

fn url_in_file(path: &Path, from: &SettingSource, warnings: &mut Vec<String>) -> Result<String, Error> {
    let url = secrets::read(INBOX_URL, path, from)?;
    if secrets::is_open_to_all(path) {
        warnings.push(format!(
            "everybody on this machine can read {}, which has the address of an inbox: chmod 600 it",
            path.display()
        ));
    }
    Ok(url)
}
