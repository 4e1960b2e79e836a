//! This machine, and the directories that the settings name: free room, whether they can be written, limits, the clock.

use super::{
    certificate,
    findings::{Findings, finding, unanswered},
    list::{CALLERS, CERTIFICATE, CLOCK, DESCRIPTORS, Judged, KEY, PLACE_DISK, PLACE_WRITABLE},
    verdicts,
};
use crate::{
    clock::SystemClock,
    config::{Layers, Settings, StoreLocation, is_open_to_all},
};
use punctual_contract::Clock as _;
use rustix::{
    fs::{Access, access, statvfs},
    process::{Resource, getrlimit},
};
use std::path::{Path, PathBuf};

/// The name of a setting of another part of the program; if it is not known, the check is skipped.
const OWN_CERTIFICATE: &str = "tls.cert";
const KEYS: [&str; 2] = ["tls.key", "hot.tls_key"];

pub(super) async fn examine(layers: &Layers, settings: &Settings, clock: &SystemClock) -> Findings {
    let mut found = vec![
        finding(&DESCRIPTORS, "this process", verdicts::descriptors(getrlimit(Resource::Nofile).current)),
        finding(&CLOCK, "this machine", verdicts::own_clock(clock.now().0)),
    ];
    let own = layers.get(OWN_CERTIFICATE).text;
    if !own.is_empty() {
        found.push(finding(&CERTIFICATE, &own, own_certificate(Path::new(&own), clock)));
    }
    for key in KEYS.map(|name| layers.get(name).text).into_iter().filter(|path| !path.is_empty()) {
        found.push(finding(&KEY, &key, private(Path::new(&key))));
    }
    if settings.listening.is_plain_on_a_network() {
        let judged = settings.listening.hidden_callers().map_or_else(
            || Judged::good("callers behind the proxies of trusted_proxies are distinguished"),
            |said| {
                Judged::doubtful(
                    said,
                    "trusted_proxies = \"ADDRESS/BITS\": the addresses that the proxy calls from",
                )
            },
        );
        found.push(finding(&CALLERS, &settings.listening.address.to_string(), judged));
    }
    for (name, place) in places(settings) {
        match place {
            Some(directory) => {
                let at = directory.display().to_string();
                found.push(finding(&PLACE_WRITABLE, &at, writable(&directory)));
                found.push(finding(&PLACE_DISK, &at, disk(&directory)));
            }
            None => {
                let judged = Judged::doubtful(
                    "an object store is not tried",
                    "see the service archive in the engine's alerts",
                );
                found.push(finding(&PLACE_WRITABLE, name, judged));
            }
        }
    }
    found
}

fn own_certificate(path: &Path, clock: &SystemClock) -> Judged {
    match certificate::of_file(path) {
        Ok(ends_at) => verdicts::certificate(ends_at - clock.now().0),
        Err(said) => Judged::wrong(said, "name a file with a certificate in PEM form (tls.cert)"),
    }
}

/// Checks the key. The start of the server shows that it can read the key.
fn private(key: &Path) -> Judged {
    if is_open_to_all(key) {
        return Judged::doubtful(
            "everybody on this machine can read the key, and so answer in the server's name",
            format!(
                "chmod 600 {0}, or chmod 640 and chgrp to the group that the engine runs as; if it was ever read, a new key",
                key.display()
            ),
        );
    }
    Judged::good("its owner and group alone can read it")
}

/// Directories that are written, or `None` if it is none.
fn places(settings: &Settings) -> Vec<(&'static str, Option<PathBuf>)> {
    let mut places = Vec::new();
    if let StoreLocation::Embedded { sqlite_path } = &settings.place {
        let parent = sqlite_path.parent().filter(|parent| !parent.as_os_str().is_empty());
        places.push(("data", Some(parent.unwrap_or_else(|| Path::new(".")).to_owned())));
    }
    if let Some(journal) = &settings.journal {
        places.push(("journal.directory", Some(journal.directory.clone())));
    }
    for (name, url) in [("archive.url", &settings.archive.url), ("payloads.url", &settings.payloads.url)] {
        if let Some(url) = url {
            places.push((name, url.strip_prefix("file://").map(PathBuf::from)));
        }
    }
    places
}

/// The directory, or the nearest above it that is there.
fn existing_parent(directory: &Path) -> &Path {
    let here = Path::new(".");
    directory
        .ancestors()
        .find(|ancestor| ancestor.exists())
        .filter(|ancestor| !ancestor.as_os_str().is_empty())
        .unwrap_or(here)
}

fn writable(directory: &Path) -> Judged {
    let existing_parent = existing_parent(directory);
    let is_there = existing_parent == directory;
    match access(existing_parent, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) if is_there => Judged::good("can be written"),
        Ok(()) => Judged::good(format!("not there yet, and can be made in {}", existing_parent.display())),
        Err(error) => Judged::wrong(
            format!("{} cannot be written: {error}", existing_parent.display()),
            "give it to the user that the engine runs as: chown, or another directory",
        ),
    }
}

pub(super) fn disk(directory: &Path) -> Judged {
    match statvfs(existing_parent(directory)) {
        Ok(statvfs) => verdicts::disk(
            statvfs.f_bavail.saturating_mul(statvfs.f_frsize),
            statvfs.f_blocks.saturating_mul(statvfs.f_frsize),
        ),
        Err(error) => unanswered(&error.to_string()),
    }
}

/// True if a server of this name is on this machine.
pub(super) fn is_near(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|host: std::net::IpAddr| host.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::super::list::CheckVerdict;
    use super::*;

    #[test]
    fn a_directory_that_is_not_there_yet_is_looked_at_where_it_would_be_made() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("a/b");
        let judged = writable(&below);
        assert_eq!(judged.verdict, CheckVerdict::Good);
        assert!(judged.finding.contains("can be made"), "{judged:?}");
        assert!(!below.exists());
        assert!(disk(&below).finding.contains("MiB free"));
    }

    #[test]
    fn a_key_that_everybody_may_read_is_seen() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let key = dir.path().join("server.key");
        std::fs::write(&key, "").unwrap();
        for (mode, verdict) in [
            (0o600, CheckVerdict::Good),
            (0o640, CheckVerdict::Good),
            (0o644, CheckVerdict::Doubtful),
            (0o604, CheckVerdict::Doubtful),
        ] {
            std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
            let judged = private(&key);
            assert_eq!(judged.verdict, verdict, "{mode:o}");
            assert_eq!(judged.way_out.contains("chmod 600"), verdict != CheckVerdict::Good, "{judged:?}");
        }
    }

    #[test]
    fn loopback_is_near_and_others_are_not() {
        for near in ["localhost", "127.0.0.1", "::1", "[::1]"] {
            assert!(is_near(near), "{near}");
        }
        for far in ["db.example", "10.0.0.1", ""] {
            assert!(!is_near(far), "{far}");
        }
    }
}
