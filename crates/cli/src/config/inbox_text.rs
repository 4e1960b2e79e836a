//! One of the tables `[[inbox]]` of a file, as a part of the text of `inbox.url`. Reads no file, and knows no other setting.

use std::path::Path;

const FIELDS: [&str; 5] = ["name", "url", "url_file", "table", "namespace"];

/// Where the address of an inbox is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InboxAddress<'t> {
    Url(&'t str),
    /// In a file of its own.
    File(&'t Path),
}

/// What is wrong with it, in words.
pub(super) fn address(table: &toml::Value) -> Result<InboxAddress<'_>, String> {
    let table = table.as_table().ok_or("must be a table")?;
    if let Some(unknown) = table.keys().find(|name| !FIELDS.contains(&name.as_str())) {
        return Err(format!("has no field {unknown:?}; there are {}", FIELDS.join(", ")));
    }
    match (field(table, "url")?, field(table, "url_file")?) {
        (Some(url), None) => Ok(InboxAddress::Url(url)),
        (None, Some(file)) => Ok(InboxAddress::File(Path::new(file))),
        _ => Err("must have url or url_file, and not both".to_owned()),
    }
}

/// `NAME=URL#table=TABLE&namespace=NAMESPACE`, of a table whose address is known.
pub(super) fn text(table: &toml::Value, url: &str) -> Result<String, String> {
    let table = table.as_table().ok_or("must be a table")?;
    if url.contains([',', '#']) {
        return Err("has an address with , or # in it; write %2C and %23".to_owned());
    }
    let name = field(table, "name")?.map(|name| format!("{name}=")).unwrap_or_default();
    let mut more = Vec::new();
    for named in ["table", "namespace"] {
        more.extend(field(table, named)?.map(|value| format!("{named}={value}")));
    }
    let mark = if more.is_empty() { "" } else { "#" };
    Ok(format!("{name}{url}{mark}{}", more.join("&")))
}

fn field<'t>(table: &'t toml::Table, name: &str) -> Result<Option<&'t str>, String> {
    let has_signs = |text: &str| name != "url" && text.contains([',', '#', '&']);
    match table.get(name) {
        None => Ok(None),
        Some(toml::Value::String(text)) if !has_signs(text) => Ok(Some(text)),
        Some(_) => Err(format!("{name} must be a string without , # &")),
    }
}
