//! CPU time and memory of a process, as Linux tells them in `/proc`. Other systems have no `/proc`: the figures are then
//! left out, never guessed.

use serde::{Deserialize, Serialize};

/// `USER_HZ`: the unit of times in `/proc/PID/stat` on every Linux architecture that Rust runs on.
const TICK_US: u64 = 10_000;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Usage {
    pub(crate) user_us: u64,
    pub(crate) system_us: u64,
    pub(crate) rss_kib: u64,
    pub(crate) rss_peak_kib: u64,
}

impl Usage {
    /// Returns `None` if there is no such process, or no `/proc`.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let (user_us, system_us) = cpu_us(&stat)?;
        Some(Self {
            user_us,
            system_us,
            rss_kib: kib(&status, "VmRSS:")?,
            rss_peak_kib: kib(&status, "VmHWM:")?,
        })
    }

    pub(crate) fn of_self() -> Option<Self> {
        Self::of(std::process::id())
    }

    pub(crate) const fn cpu_us(&self) -> u64 {
        self.user_us + self.system_us
    }

    /// CPU time since an earlier reading; memory as of this one.
    pub(crate) const fn since(self, earlier: Self) -> Self {
        Self {
            user_us: self.user_us.saturating_sub(earlier.user_us),
            system_us: self.system_us.saturating_sub(earlier.system_us),
            ..self
        }
    }

    /// The sum of two processes that run at the same time.
    pub(crate) const fn beside(self, other: Self) -> Self {
        Self {
            user_us: self.user_us + other.user_us,
            system_us: self.system_us + other.system_us,
            rss_kib: self.rss_kib + other.rss_kib,
            rss_peak_kib: self.rss_peak_kib + other.rss_peak_kib,
        }
    }

    /// The sum of two processes that ran one after the other.
    pub(crate) fn and_then(self, later: Self) -> Self {
        Self {
            user_us: self.user_us + later.user_us,
            system_us: self.system_us + later.system_us,
            rss_kib: later.rss_kib,
            rss_peak_kib: self.rss_peak_kib.max(later.rss_peak_kib),
        }
    }
}

/// Fields 14 and 15. The second one, the program's name, may hold spaces and brackets: counted from its end.
fn cpu_us(stat: &str) -> Option<(u64, u64)> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(11);
    let mut next_us = || Some(fields.next()?.parse::<u64>().ok()? * TICK_US);
    Some((next_us()?, next_us()?))
}

fn kib(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_a_name_with_spaces_and_brackets() {
        let stat = "12 (a b) c) S 1 12 12 0 -1 4194560 99 0 0 0 150 25 0 0 20 0 4 0 1 2 3";
        assert_eq!(cpu_us(stat), Some((1_500_000, 250_000)));
        assert_eq!(cpu_us("12 (a) S 1"), None);
    }

    #[test]
    fn memory_is_read_by_name() {
        let status = "Name:\tx\nVmHWM:\t   2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(
            (kib(status, "VmHWM:"), kib(status, "VmRSS:"), kib(status, "VmX:")),
            (Some(2_048), Some(1_024), None)
        );
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_memory_and_its_cpu_time_grows() {
        let before = Usage::of_self().unwrap();
        assert!(before.rss_kib > 0 && before.rss_peak_kib >= before.rss_kib);
        let mut spun = 0_u64;
        while Usage::of_self().unwrap().since(before).cpu_us() == 0 {
            spun = std::hint::black_box(spun + 1);
        }
        assert!(spun > 0);
    }

    #[test]
    fn times_add_up_over_processes_and_peaks_do_not() {
        let first = Usage { user_us: 5, system_us: 1, rss_kib: 10, rss_peak_kib: 30 };
        let second = Usage { user_us: 7, system_us: 2, rss_kib: 20, rss_peak_kib: 20 };
        let both = Usage { user_us: 12, system_us: 3, rss_kib: 20, rss_peak_kib: 30 };
        assert_eq!(first.and_then(second), both);
        assert_eq!(first.beside(second), Usage { rss_kib: 30, rss_peak_kib: 50, ..both });
        assert_eq!(both.since(first), Usage { user_us: 7, system_us: 2, ..both });
    }
}
