//! The file of profiles: `punctual/profiles.toml` in the user's directory of settings. With tokens in it, it must be
//! mode 0600. It is written atomically.

use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

/// Permissions of the group and of all others.
const GROUP_AND_OTHERS: u32 = 0o077;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profiles {
    /// The profile that is used if neither arguments nor environment name a server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) default: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) profiles: BTreeMap<String, Profile>,
}

/// One cluster, and the caller's token.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    /// Engines of one cluster: each is asked where the one before cannot be reached.
    pub(crate) urls: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
    /// The file of the token, instead of the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ca: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_cert: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_key: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
}

/// Shows the profile without its token.
impl std::fmt::Debug for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Profile").field("urls", &self.urls).finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("no directory for profiles: neither XDG_CONFIG_HOME nor HOME is set")]
    NoPlace,
    #[error("{path} cannot be read")]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{path} cannot be written")]
    Unwritable { path: PathBuf, source: io::Error },
    /// Omits the line and the parser's message: both may contain a token.
    #[error(
        "{path} is not a file of profiles: line {line} is not as `punctual profile set` writes it (docs/cli.md)"
    )]
    NotProfiles { path: PathBuf, line: usize },
    #[error("{path} has a token in it, and others can read it: chmod 600 it")]
    OpenToOthers { path: PathBuf },
    #[error("there is no profile {name:?}; there are: {known}")]
    Unknown { name: String, known: String },
    #[error("the token file {path} is empty")]
    NoToken { path: PathBuf },
}

/// `$XDG_CONFIG_HOME/punctual/profiles.toml`, or that below `~/.config`.
pub(crate) fn path() -> Result<PathBuf, Error> {
    let is_absolute = |path: &PathBuf| path.is_absolute();
    let configured = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(is_absolute);
    let of_home = || env::home_dir().filter(is_absolute).map(|home_dir| home_dir.join(".config"));
    let directory = configured.or_else(of_home).ok_or(Error::NoPlace)?;
    Ok(directory.join("punctual").join("profiles.toml"))
}

impl Profiles {
    /// A missing file means no profiles.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let unreadable = |source| Error::Unreadable { path: path.to_owned(), source };
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(unreadable(error)),
        };
        let profiles: Self = toml::from_str(&text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            Error::NotProfiles { path: path.to_owned(), line: before.matches('\n').count() + 1 }
        })?;
        let has_token = profiles.profiles.values().any(|profile| profile.token.is_some());
        let mode = fs::metadata(path).map_err(unreadable)?.permissions().mode();
        if has_token && mode & GROUP_AND_OTHERS != 0 {
            return Err(Error::OpenToOthers { path: path.to_owned() });
        }
        Ok(profiles)
    }

    /// The file is mode 0600 from its first byte on.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Error> {
        let unwritable = |source| Error::Unwritable { path: path.to_owned(), source };
        let text = toml::to_string_pretty(self).map_err(|error| unwritable(io::Error::other(error)))?;
        let directory = path.parent().unwrap_or_else(|| Path::new("/"));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(unwritable)?;
        // Made with 0600.
        let mut temporary = tempfile::NamedTempFile::new_in(directory).map_err(unwritable)?;
        temporary
            .write_all(HEAD.as_bytes())
            .and_then(|()| temporary.write_all(text.as_bytes()))
            .map_err(unwritable)?;
        temporary.as_file().sync_all().map_err(unwritable)?;
        temporary.persist(path).map_err(|error| unwritable(error.error))?;
        Ok(())
    }

    pub(crate) fn get(&self, name: &str) -> Result<&Profile, Error> {
        let known = || match self.profiles.is_empty() {
            true => "none (`punctual profile set NAME --url URL` makes one)".to_owned(),
            false => self.profiles.keys().cloned().collect::<Vec<_>>().join(", "),
        };
        self.profiles.get(name).ok_or_else(|| Error::Unknown { name: name.to_owned(), known: known() })
    }
}

const HEAD: &str = "# Written by `punctual profile`; comments of your own are lost with the next change.\n";

impl Profile {
    /// The token of the profile, or the trimmed text of its token file.
    pub(crate) fn token(&self) -> Result<Option<String>, Error> {
        let Some(path) = &self.token_file else { return Ok(self.token.clone()) };
        let unreadable = |source| Error::Unreadable { path: path.clone(), source };
        let text = fs::read_to_string(path).map_err(unreadable)?;
        match text.trim() {
            "" => Err(Error::NoToken { path: path.clone() }),
            token => Ok(Some(token.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prod() -> Profiles {
        let prod = Profile {
            urls: vec!["https://a:7450".into(), "https://b:7450".into()],
            token: Some("geheim".into()),
            ca: Some("/etc/ca.pem".into()),
            ..Profile::default()
        };
        Profiles { default: Some("prod".into()), profiles: BTreeMap::from([("prod".into(), prod)]) }
    }

    #[test]
    fn what_is_written_is_read_and_only_its_owner_can() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/punctual/profiles.toml");
        assert_eq!(Profiles::read(&path).unwrap(), Profiles::default());
        prod().write(&path).unwrap();
        assert_eq!(Profiles::read(&path).unwrap(), prod());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    }

    #[test]
    fn a_token_that_others_can_read_is_refused_and_told_with_the_way_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("profiles.toml");
        prod().write(&path).unwrap();
        for mode in [0o640, 0o604, 0o660] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let said = Profiles::read(&path).unwrap_err().to_string();
            assert!(said.contains("chmod 600") && !said.contains("geheim"), "{said}");
        }
        let mut open = prod();
        open.profiles.get_mut("prod").unwrap().token = None;
        open.write(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(Profiles::read(&path).unwrap(), open, "there is no token in it");
    }

    #[test]
    fn a_faulty_file_is_told_by_its_line_and_without_what_stands_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("profiles.toml");
        for (text, line) in [
            ("[profiles.a]\nurls = ['http://a']\ntokn = 'geheim'\n", "line 3"),
            ("[profiles.a]\nurls = 'geheim'\n", "line 2"),
            ("default = 'geheim", "line 1"),
        ] {
            fs::write(&path, text).unwrap();
            let said = Profiles::read(&path).unwrap_err().to_string();
            assert!(said.contains(line) && !said.contains("geheim"), "{said}");
        }
        let unknown = prod().get("test").unwrap_err().to_string();
        assert!(unknown.contains("\"test\"") && unknown.contains("prod"), "{unknown}");
        assert!(!format!("{:?}", prod()).contains("geheim"));
    }
}
