//! Compares versions of handlers with the demands of tasks. A version may be abbreviated (`2`, `2.1`): missing parts
//! are 0. An unreadable version matches nothing.

use semver::{Version, VersionReq};

/// True if an executor whose handlers have this version may run a task with this demand. An executor without a
/// version gets only tasks without a demand.
#[must_use]
pub fn may_run(demanded: Option<&str>, version: Option<&str>) -> bool {
    let Some(demanded) = demanded else { return true };
    let range = VersionReq::parse(demanded);
    range.is_ok_and(|range| version.and_then(read).is_some_and(|version| range.matches(&version)))
}

/// True if the range can be parsed.
#[must_use]
pub fn is_range(range: &str) -> bool {
    VersionReq::parse(range).is_ok()
}

/// True if the version can be parsed.
#[must_use]
pub fn is_version(version: &str) -> bool {
    read(version).is_some()
}

fn read(version: &str) -> Option<Version> {
    let (numbers, rest) = version.split_at(version.find(['-', '+']).unwrap_or(version.len()));
    let missing = 2_usize.checked_sub(numbers.matches('.').count())?;
    Version::parse(&format!("{numbers}{}{rest}", ".0".repeat(missing))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_matched_by_full_and_by_short_versions() {
        for (range, version, may) in [
            (">=2.1, <3", "2.1", true),
            (">=2.1, <3", "2.0.9", false),
            (">=2.1, <3", "3", false),
            ("^1.4", "1.9.3", true),
            ("=2.0.0", "2", true),
            (">=2", "2.1.0-rc.1", false),
            ("not a range", "2", false),
            (">=1", "two", false),
            (">=1", "1.2.3.4", false),
        ] {
            assert_eq!(may_run(Some(range), Some(version)), may, "{version} in {range}");
        }
    }

    #[test]
    fn what_demands_nothing_runs_anywhere_and_what_demands_runs_nowhere_without_a_version() {
        assert!(may_run(None, None) && may_run(None, Some("7")));
        assert!(!may_run(Some(">=0"), None));
        assert!(is_range(">=2.1, <3") && !is_range(">=two") && is_version("2.1") && !is_version(""));
    }
}
