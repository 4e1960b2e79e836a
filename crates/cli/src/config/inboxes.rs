//! Tables in users' own databases, as they are set (`inbox.url`, or `[[inbox]]` in the file). Opens none.

use super::{Error, Layers, keys::INBOX_URL, secrets::shown};
use punctual_domain::name::Name;
use punctual_store::InboxTableName;
use std::fmt;

/// Shown without its address, which has a password in it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct InboxPlace {
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) table: InboxTableName,
    /// All its tasks go there. None: where each row says.
    pub(crate) namespace: Option<Name>,
}

impl fmt::Debug for InboxPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={} ({})", self.name, shown(INBOX_URL, &self.url), self.table)
    }
}

/// `NAME=mysql://user:password@host:port/database#table=NAME&namespace=NAME`, several with commas. Without a name, that of the
/// database, and of its table if that is not the usual one.
pub(super) fn inboxes(layers: &Layers) -> Result<Vec<InboxPlace>, Error> {
    let text = layers.get(INBOX_URL).text;
    let mut places: Vec<InboxPlace> = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let odd = |reason: String| {
            let given = shown(INBOX_URL, part);
            let form = "NAME=mysql://user:password@host:port/database#table=TABLE&namespace=NAMESPACE";
            layers.invalid(INBOX_URL, format!("each of them must be {form}, and {given:?} {reason}"))
        };
        let new = place(part).map_err(odd)?;
        if places.iter().any(|place| place.name == new.name) {
            return Err(odd("has the name of another; give each a name of its own".to_owned()));
        }
        if places.iter().any(|place| (&place.url, &place.table) == (&new.url, &new.table)) {
            return Err(odd("is the table of another; give each a table of its own".to_owned()));
        }
        places.push(new);
    }
    Ok(places)
}

/// What is wrong with it, as the end of a sentence.
fn place(text: &str) -> Result<InboxPlace, String> {
    let (name, rest) = text.split_once("mysql://").ok_or("has no mysql://")?;
    let name = name.strip_suffix('=').unwrap_or(name);
    let (rest, more) = rest.split_once('#').unwrap_or((rest, ""));
    let url = format!("mysql://{rest}");
    let database = rest.split_once('/').map_or("", |(_, path)| path);
    let database = database.split('?').next().unwrap_or_default();
    if database.is_empty() {
        return Err("names no database".to_owned());
    }
    let (mut table, mut namespace) = (InboxTableName::default(), None);
    for pair in more.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("table", name)) => {
                let parsed = name.parse::<InboxTableName>();
                table = parsed.map_err(|error| format!("has a wrong table: {error}"))?;
            }
            Some(("namespace", name)) => {
                let chosen = Name::chosen(name).map_err(|error| format!("has a wrong namespace: {error}"))?;
                namespace = Some(chosen);
            }
            _ => return Err(format!("has {pair:?} behind #, where only table and namespace may be")),
        }
    }
    let name = match name {
        "" if table == InboxTableName::default() => database.to_owned(),
        "" => format!("{database}.{table}"),
        name => name.to_owned(),
    };
    if Name::chosen(&name).is_err() {
        return Err("has a name with other characters than A-Z a-z 0-9 . _ : -".to_owned());
    }
    Ok(InboxPlace { name, url, table, namespace })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

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
        assert!(
            places.iter().all(|place| place.table.as_str() == "punctual_inbox" && place.namespace.is_none())
        );
        assert_eq!(set("").unwrap(), []);
        assert!(!format!("{places:?}").contains(":p@"));
    }

    #[test]
    fn several_tables_of_one_database_are_several_inboxes() {
        let places =
            set("mysql://h/shop,mysql://h/shop?ssl-mode=required#table=jobs&namespace=billing").unwrap();
        assert_eq!((places[1].name.as_str(), places[1].table.as_str()), ("shop.jobs", "jobs"));
        assert_eq!(places[1].namespace, Some(Name::chosen("billing").unwrap()));
        assert_eq!(places[1].url, "mysql://h/shop?ssl-mode=required");
    }

    #[test]
    fn tables_of_the_file_are_the_same_as_the_text() {
        let dir = tempfile::tempdir().unwrap();
        let secret = dir.path().join("url");
        std::fs::write(&secret, "mysql://u:hidden@h/shop\n").unwrap();
        let file = |text: &str| {
            let mut layers = Layers::defaults();
            layers
                .file(Path::new("f.toml"), text)
                .and_then(|()| inboxes(&layers))
                .map_err(|error| error.to_string())
        };
        let two = format!(
            "[[inbox]]\nurl_file = {secret:?}\n[[inbox]]\nname = 'b'\nurl = 'mysql://h/d'\ntable = 'jobs'\nnamespace = 'n'\n"
        );
        assert_eq!(
            file(&two).unwrap(),
            set("mysql://u:hidden@h/shop,b=mysql://h/d#table=jobs&namespace=n").unwrap()
        );
        for (text, part) in [
            ("[[inbox]]\nname = 'a'", "url or url_file"),
            ("[[inbox]]\nurl = 'mysql://h/d'\ncolour = 1", "no field \"colour\""),
            ("[[inbox]]\nurl = 7", "url must be a string"),
            ("inbox = [1]", "must be a table"),
        ] {
            let said = file(text).unwrap_err();
            assert!(said.contains(part) && said.contains("[[inbox]] 1"), "{said}");
        }
    }

    #[test]
    fn what_is_no_inbox_is_named_with_the_way_out() {
        for (text, part) in [
            ("postgres://h/d", "has no mysql://"),
            ("mysql://u:hidden@h", "names no database"),
            ("mysql://h/", "names no database"),
            ("a b=mysql://h/d", "other characters"),
            ("mysql://h/d,mysql://i/d", "the name of another"),
            ("a=mysql://h/d,b=mysql://h/d", "the table of another"),
            ("mysql://h/d#table=Jobs", "a wrong table"),
            ("mysql://h/d#namespace=a b", "a wrong namespace"),
            ("mysql://h/d#colour=red", "only table and namespace"),
        ] {
            let said = set(text).unwrap_err();
            assert!(
                said.contains(part) && said.contains("NAME=mysql://") && !said.contains("hidden"),
                "{said}"
            );
        }
    }
}
