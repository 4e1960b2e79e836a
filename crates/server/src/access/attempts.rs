//! Tokens that are not good, counted by address. Who brings too many is answered slowly and told to wait; a good token is
//! looked at before anything is counted, and so is never locked out.

use crate::refusal::Refusal;
use parking_lot::Mutex;
use punctual_protocol::{Code, Problem};
use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    time::Duration,
};
use tokio::{sync::Semaphore, time::Instant};

/// Within one window.
const FAILURES_MAX: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);
/// Addresses that are told apart; what comes beyond counts together.
const ADDRESSES_MAX: usize = 4_096;
/// Before the answer, so that trying costs time.
const DELAY: Duration = Duration::from_millis(500);
/// Answers held back at one time: beyond, they are given at once, so that nobody fills the memory by failing.
const DELAYED_MAX: usize = 256;

#[derive(Debug)]
pub(crate) struct Attempts {
    windows: Mutex<HashMap<Source, Window>>,
    delayed: Semaphore,
}

/// One host. Of IPv6, one network: a host has as many addresses in it as it likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Source {
    Address(IpAddr),
    Unknown,
    Others,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    began: Instant,
    failures: u32,
}

impl Default for Attempts {
    fn default() -> Self {
        Self { windows: Mutex::default(), delayed: Semaphore::new(DELAYED_MAX) }
    }
}

fn source(address: Option<IpAddr>) -> Source {
    const NETWORK: u128 = !0 << 64;
    match address {
        None => Source::Unknown,
        Some(IpAddr::V6(it)) if it.to_ipv4_mapped().is_none() => {
            Source::Address(Ipv6Addr::from_bits(it.to_bits() & NETWORK).into())
        }
        Some(it) => Source::Address(it.to_canonical()),
    }
}

impl Attempts {
    /// Counts a failure. True: there were too many before it.
    pub(crate) fn failed(&self, address: Option<IpAddr>) -> bool {
        let mut windows = self.windows.lock();
        let mut source = source(address);
        if windows.len() >= ADDRESSES_MAX && !windows.contains_key(&source) {
            windows.retain(|_, it| it.began.elapsed() < WINDOW);
            if windows.len() >= ADDRESSES_MAX {
                source = Source::Others;
            }
        }
        let fresh = Window { began: Instant::now(), failures: 0 };
        let window = windows.entry(source).or_insert(fresh);
        if window.began.elapsed() >= WINDOW {
            *window = fresh;
        }
        window.failures = window.failures.saturating_add(1);
        window.failures > FAILURES_MAX
    }

    /// Whether the next failure is one too many: then no more is done for it than to say so.
    pub(crate) fn are_too_many(&self, address: Option<IpAddr>) -> bool {
        let windows = self.windows.lock();
        let window = windows.get(&source(address));
        window.is_some_and(|it| it.failures >= FAILURES_MAX && it.began.elapsed() < WINDOW)
    }

    /// The answer to one failure too many, after a while.
    pub(crate) async fn slowed(&self, address: Option<IpAddr>) -> Refusal {
        if let Ok(_held_back) = self.delayed.try_acquire() {
            tokio::time::sleep(DELAY).await;
        }
        let left =
            self.windows.lock().get(&source(address)).map(|it| WINDOW.saturating_sub(it.began.elapsed()));
        let left_ms = u64::try_from(left.unwrap_or(WINDOW).as_millis()).unwrap_or(u64::MAX);
        let detail =
            format!("more than {FAILURES_MAX} tokens that are not good came from this address in a minute");
        Problem::new(Code::AuthSlowed, detail).retry_after_ms(left_ms.max(1_000)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn the_eleventh_failure_of_an_address_in_a_minute_is_one_too_many() {
        let attempts = Attempts::default();
        for _ in 0..FAILURES_MAX {
            assert!(!attempts.are_too_many(address("192.0.2.1")));
            assert!(!attempts.failed(address("192.0.2.1")));
        }
        assert!(attempts.are_too_many(address("192.0.2.1")));
        assert!(attempts.failed(address("192.0.2.1")));
        assert!(attempts.failed(address("::ffff:192.0.2.1")), "the same host");
        assert!(!attempts.failed(address("192.0.2.2")) && !attempts.failed(None));
        tokio::time::advance(WINDOW).await;
        assert!(!attempts.are_too_many(address("192.0.2.1")) && !attempts.failed(address("192.0.2.1")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_network_of_ipv6_counts_as_one_and_many_addresses_are_bounded() {
        let attempts = Attempts::default();
        let in_one = |nth: u32| address(&format!("2001:db8::{nth:x}"));
        assert!((0..FAILURES_MAX).all(|nth| !attempts.failed(in_one(nth))) && attempts.failed(in_one(99)));
        for nth in 0..20_000_u32 {
            attempts.failed(Some(std::net::Ipv4Addr::from(nth).into()));
        }
        assert!(attempts.windows.lock().len() <= ADDRESSES_MAX + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn one_failure_too_many_is_answered_slowly_and_says_when_to_come_back() {
        let attempts = Attempts::default();
        for _ in 0..=FAILURES_MAX {
            attempts.failed(None);
        }
        let began = Instant::now();
        let problem = attempts.slowed(None).await.into_problem();
        assert!(began.elapsed() >= DELAY && problem.status == 429);
        assert!(problem.retry_after_ms.is_some_and(|it| (1_000..=60_000).contains(&it)));
    }
}
