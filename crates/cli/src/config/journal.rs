//! The place of the journal of outcomes, for outages of their database. Opens nothing.

use super::{
    Error, Layers,
    keys::{DATA, JOURNAL_DIRECTORY, JOURNAL_MAX_MIB},
    place::StoreLocation,
};
use std::path::{Path, PathBuf};

/// `journal.directory` where there is to be none.
const OFF: &str = "off";
const FOLDER: &str = "journal";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JournalPlace {
    pub(crate) directory: PathBuf,
    pub(crate) bytes_max: u64,
    /// True if the journal was configured: an engine that cannot write it does not start.
    pub(crate) is_named: bool,
    /// The store is this engine's alone.
    pub(crate) is_alone: bool,
}

/// `None` if outcomes that their database does not accept are refused.
pub(super) fn journal(layers: &Layers, place: &StoreLocation) -> Result<Option<JournalPlace>, Error> {
    let max_mib: u64 = layers.number(JOURNAL_MAX_MIB, 1..=65_536)?;
    let named = layers.get(JOURNAL_DIRECTORY).text;
    let directory = match (named.as_str(), place) {
        (OFF, _) => return Ok(None),
        ("", StoreLocation::Embedded { sqlite_path }) => {
            let beside = sqlite_path.parent().filter(|path| !path.as_os_str().is_empty());
            beside.unwrap_or_else(|| Path::new(".")).join(FOLDER)
        }
        ("", StoreLocation::Shared(_)) => Path::new(&layers.get(DATA).text).join(FOLDER),
        (named, _) => PathBuf::from(named),
    };
    let (bytes_max, is_named) = (max_mib << 20, !named.is_empty());
    Ok(Some(JournalPlace {
        directory,
        bytes_max,
        is_named,
        is_alone: matches!(place, StoreLocation::Embedded { .. }),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;

    fn with(flags: &[(&str, &str)]) -> Result<Option<JournalPlace>, Error> {
        let mut layers = Layers::defaults();
        for (key, value) in flags {
            layers.flag("--set", key, (*value).to_owned())?;
        }
        Settings::from_layers(&layers).map(|settings| settings.journal)
    }

    const SHARED: [(&str, &str); 2] = [("store.url", "mysql://h/d"), ("hot.url", "redis://h")];

    #[test]
    fn it_is_beside_the_file_or_in_the_data_directory_unless_it_is_named_or_off() {
        let of = |flags: &[(&str, &str)]| with(flags).unwrap().map(|place| (place.directory, place.is_named));
        let there = |path: &str, is_named| Some((PathBuf::from(path), is_named));
        assert_eq!(of(&[]), there("./punctual-data/journal", false));
        assert_eq!(of(&[("store.url", "sqlite:///x/y.db")]), there("/x/journal", false));
        assert_eq!(of(&[SHARED[0], SHARED[1], ("data", "/z")]), there("/z/journal", false));
        assert_eq!(of(&[SHARED[0], SHARED[1], ("journal.directory", "/j")]), there("/j", true));
        assert_eq!(of(&[("journal.directory", "off")]), None);
    }

    #[test]
    fn its_size_has_bounds() {
        assert_eq!(with(&[]).unwrap().unwrap().bytes_max, 64 << 20);
        assert_eq!(with(&[("journal.max_mib", "1")]).unwrap().unwrap().bytes_max, 1 << 20);
        for odd in ["0", "65537", "many"] {
            assert!(with(&[("journal.max_mib", odd)]).unwrap_err().to_string().contains("journal.max_mib"));
        }
    }
}
