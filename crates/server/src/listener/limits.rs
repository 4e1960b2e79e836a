//! The maximum number of connections: as the operator set it, or derived from the descriptors of the process, less
//! those that the databases and files need.

use crate::options::ListenerOptions;
use std::time::Duration;

/// Assumed where the system does not say it.
const DESCRIPTORS_ASSUMED: usize = 1_024;
/// The maximum number of closing connections beside those that replaced them.
pub(super) const ENDING_MAX: usize = 32;
/// Connections that are being refused.
pub(super) const REFUSALS_MAX: usize = 32;
/// Files and connections to databases that are opened later than the listener.
const LATER: usize = 48;
/// An engine with fewer places serves no caller.
const CONNECTIONS_MIN: usize = 16;

#[derive(Clone, Debug)]
pub(crate) struct ConnectionLimits {
    pub(super) connections_max: usize,
    pub(super) per_address_max: usize,
    pub(crate) long_polls_max: usize,
    pub(super) header_timeout: Duration,
    pub(super) idle_timeout: Duration,
    pub(super) write_timeout: Duration,
    pub(super) close_timeout: Duration,
}

impl ConnectionLimits {
    pub(crate) fn of_this_process(options: &ListenerOptions) -> Self {
        Self::of(options, descriptors_max(), descriptors_open())
    }

    pub(super) fn of(options: &ListenerOptions, descriptors: Option<usize>, open: usize) -> Self {
        let possible = possible(descriptors.unwrap_or(DESCRIPTORS_ASSUMED), open);
        let wished = options.connections_max.unwrap_or(possible);
        if wished > possible {
            tracing::warn!(
                wished,
                possible,
                "http.connections_max is more than the descriptors of the process allow; raise ulimit -n"
            );
        }
        let connections_max = wished.min(possible).max(1);
        Self {
            connections_max,
            per_address_max: options
                .connections_per_address_max
                .unwrap_or_else(|| connections_max.div_ceil(2))
                .max(1),
            long_polls_max: options.long_polls_max.unwrap_or(connections_max - connections_max / 4),
            header_timeout: options.header_timeout,
            idle_timeout: options.idle_timeout,
            write_timeout: options.write_timeout,
            close_timeout: options.close_timeout,
        }
    }

    pub(crate) const fn connections_max(&self) -> usize {
        self.connections_max
    }

    /// The interval of the checks of connections: a limit is exceeded by at most a quarter, or a second.
    pub(super) fn look_every(&self) -> Duration {
        let limits = [self.header_timeout, self.idle_timeout, self.write_timeout, self.close_timeout];
        let shortest = limits.into_iter().min().unwrap_or_default();
        (shortest / 4).clamp(Duration::from_millis(5), Duration::from_secs(1))
    }
}

fn possible(descriptors: usize, open: usize) -> usize {
    let kept = open + ENDING_MAX + REFUSALS_MAX + LATER + descriptors / 8;
    descriptors.saturating_sub(kept).max(CONNECTIONS_MIN)
}

/// RLIMIT_NOFILE of this process.
fn descriptors_max() -> Option<usize> {
    soft_limit(&std::fs::read_to_string("/proc/self/limits").ok()?)
}

fn soft_limit(limits: &str) -> Option<usize> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

fn descriptors_open() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_descriptors_is_read_right() {
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax processes 1 2 processes\nMax open files            256                  1048576              files\n";
        assert_eq!(soft_limit(limits), Some(256));
        assert_eq!((soft_limit(""), soft_limit("Max open files   unlimited unlimited files")), (None, None));
        if cfg!(target_os = "linux") {
            assert!(descriptors_max().is_some() && descriptors_open() > 2);
        }
    }

    #[test]
    fn what_databases_and_files_need_is_left_to_them() {
        let of = |descriptors, open| {
            let limits = ConnectionLimits::of(&ListenerOptions::default(), Some(descriptors), open);
            (limits.connections_max, limits.per_address_max, limits.long_polls_max)
        };
        assert_eq!(of(256, 24), (88, 44, 66));
        assert_eq!(of(65_536, 100), (57_132, 28_566, 42_849));
        assert_eq!(of(64, 60), (16, 8, 12), "never nobody");
    }

    #[test]
    fn what_an_operator_sets_counts_as_far_as_it_is_possible() {
        let options = ListenerOptions {
            connections_max: Some(50),
            connections_per_address_max: Some(50),
            long_polls_max: Some(7),
            ..ListenerOptions::default()
        };
        let limits = ConnectionLimits::of(&options, Some(1_024), 10);
        assert_eq!((limits.connections_max, limits.per_address_max, limits.long_polls_max), (50, 50, 7));
        let limits = ConnectionLimits::of(
            &ListenerOptions { connections_max: Some(9_000), ..options },
            Some(1_024),
            10,
        );
        assert_eq!(limits.connections_max, 774);
    }
}
