//! Tables in users' own databases, as they are set (`inbox.url`). Opens none.

use super::{Error, Layers, keys::INBOX_URL, secrets::shown};
use punctual_domain::name::Name;
use std::fmt;

/// Shown without its address, which has a password in it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct InboxPlace {
    pub(crate) name: String,
    pub(crate) url: String,
}

impl fmt::Debug for InboxPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, shown(INBOX_URL, &self.url))
    }
}

/// `NAME=mysql://user:password@host:port/database`, several with commas; without a name, that of the database.
pub(super) fn inboxes(layers: &Layers) -> Result<Vec<InboxPlace>, Error> {
    let text = layers.get(INBOX_URL).text;
    let mut places: Vec<InboxPlace> = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let odd = |reason: &str| {
            let given = shown(INBOX_URL, part);
            layers.invalid(INBOX_URL, format!("each of them must be NAME=mysql://user:password@host:port/database, and {given:?} {reason}"))
        };
        let (name, url) = match part.split_once("mysql://") {
            Some((name, rest)) => (name.strip_suffix('=').unwrap_or(name), format!("mysql://{rest}")),
            None => return Err(odd("has no mysql://")),
        };
        let database = url.rsplit_once('/').map_or("", |(_, rest)| rest);
        let database = database.split(['?', '#']).next().unwrap_or_default();
        if database.is_empty() || url.matches('/').count() < 3 {
            return Err(odd("names no database"));
        }
        let name = if name.is_empty() { database } else { name };
        if Name::chosen(name).is_err() {
            return Err(odd("has a name with other characters than A-Z a-z 0-9 . _ : -"));
        }
        if places.iter().any(|place| place.name == name) {
            return Err(odd("has the name of another; give each a name of its own"));
        }
        places.push(InboxPlace { name: name.to_owned(), url });
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> Result<Vec<InboxPlace>, String> {
        let mut layers = Layers::defaults();
        layers.flag("--inbox", INBOX_URL, text.to_owned()).map_err(|error| error.to_string())?;
        inboxes(&layers).map_err(|error| error.to_string())
    }

    #[test]
    fn an_inbox_has_a_name_or_that_of_the_database() {
        let places = set("mysql://u:p@h:3306/shop?ssl-mode=required, billing=mysql://h/b").unwrap();
        let names: Vec<&str> = places.iter().map(|place| place.name.as_str()).collect();
        assert_eq!(names, ["shop", "billing"]);
        assert_eq!(places[1].url, "mysql://h/b");
        assert_eq!(set("").unwrap(), []);
        assert!(!format!("{places:?}").contains(":p@"));
    }

    #[test]
    fn what_is_no_inbox_is_named_with_the_way_out() {
        for (text, part) in [
            ("postgres://h/d", "has no mysql://"),
            ("mysql://u:hidden@h", "names no database"),
            ("mysql://h/", "names no database"),
            ("a b=mysql://h/d", "other characters"),
            ("mysql://h/d,mysql://i/d", "the name of another"),
        ] {
            let said = set(text).unwrap_err();
            assert!(
                said.contains(part) && said.contains("NAME=mysql://") && !said.contains("hidden"),
                "{said}"
            );
        }
    }
}
