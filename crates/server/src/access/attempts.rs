//! Counts invalid tokens by address. An address that sends too many is answered slowly and must wait; its valid
//! tokens are checked nevertheless. The number of checked guesses never exceeds the number of delayed ones: beyond
//! it, an address that has sent too many is refused before its token is checked.

use crate::refusal::Refusal;
use parking_lot::Mutex;
use punctual_protocol::{Code, Problem};
use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    time::Duration,
};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::Instant,
};

/// Within one window.
const FAILURES_MAX: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);
/// Addresses that are counted one by one; further ones count together.
const ADDRESSES_MAX: usize = 4_096;
/// The delay before the answer, so that trying costs time.
const DELAY: Duration = Duration::from_millis(500);
/// The maximum number of guesses of such addresses at one time, from the check to the end of the delay: together with
/// the delay it bounds the guesses per second, from however many connections.
const DELAYED_MAX: usize = 256;

/// The permission to check a token.
#[derive(Debug)]
pub(crate) struct Guess<'a> {
    /// `None` if the address has sent too few invalid tokens.
    place: Option<SemaphorePermit<'a>>,
}

#[derive(Debug)]
pub(crate) struct Attempts {
    windows: Mutex<HashMap<ClientHost, Window>>,
    delayed: Semaphore,
}

/// One host. Of IPv6, one network: a host has as many addresses in it as it likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ClientHost {
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

fn source(address: Option<IpAddr>) -> ClientHost {
    const NETWORK: u128 = !0 << 64;
    match address {
        None => ClientHost::Unknown,
        Some(IpAddr::V6(address)) if address.to_ipv4_mapped().is_none() => {
            ClientHost::Address(Ipv6Addr::from_bits(address.to_bits() & NETWORK).into())
        }
        Some(address) => ClientHost::Address(address.to_canonical()),
    }
}

/// The address's own window, or the common window of all addresses that arrived when there was no more room.
fn counted_as(windows: &HashMap<ClientHost, Window>, address: Option<IpAddr>) -> ClientHost {
    let source = source(address);
    let has_room = windows.len() < ADDRESSES_MAX || windows.contains_key(&source);
    if has_room { source } else { ClientHost::Others }
}

impl Attempts {
    /// Admits the check of a token. On an error the token is not checked.
    pub(crate) fn admit(&self, address: Option<IpAddr>) -> Result<Guess<'_>, Refusal> {
        if !self.are_too_many(address) {
            return Ok(Guess { place: None });
        }
        match self.delayed.try_acquire() {
            Ok(place) => Ok(Guess { place: Some(place) }),
            Err(_) => Err(self.refusal(address)),
        }
    }

    /// Counts a failure. True if there were too many before it.
    pub(crate) fn failed(&self, address: Option<IpAddr>) -> bool {
        let mut windows = self.windows.lock();
        if counted_as(&windows, address) == ClientHost::Others {
            windows.retain(|_, window| window.began.elapsed() < WINDOW);
        }
        let source = counted_as(&windows, address);
        let fresh = Window { began: Instant::now(), failures: 0 };
        let window = windows.entry(source).or_insert(fresh);
        if window.began.elapsed() >= WINDOW {
            *window = fresh;
        }
        window.failures = window.failures.saturating_add(1);
        window.failures > FAILURES_MAX
    }

    /// True if the next failure exceeds the limit: the request is then refused without further work.
    pub(crate) fn are_too_many(&self, address: Option<IpAddr>) -> bool {
        let windows = self.windows.lock();
        let window = windows.get(&counted_as(&windows, address));
        window.is_some_and(|window| window.failures >= FAILURES_MAX && window.began.elapsed() < WINDOW)
    }

    /// The answer to one failure too many, after a while.
    pub(crate) async fn slowed(&self, guess: Guess<'_>, address: Option<IpAddr>) -> Refusal {
        let place = match guess.place {
            Some(place) => Some(place),
            // The failures that made it too many came while it was looked at. It waits its turn.
            None => self.delayed.acquire().await.ok(),
        };
        tokio::time::sleep(DELAY).await;
        drop(place);
        self.refusal(address)
    }

    fn refusal(&self, address: Option<IpAddr>) -> Refusal {
        let windows = self.windows.lock();
        let window = windows.get(&counted_as(&windows, address));
        let left = window.map(|window| WINDOW.saturating_sub(window.began.elapsed()));
        drop(windows);
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
    async fn no_more_tokens_are_looked_at_than_are_held_back() {
        let attempts = Attempts::default();
        for _ in 0..FAILURES_MAX {
            attempts.failed(address("192.0.2.1"));
        }
        let held: Vec<_> = (0..DELAYED_MAX).map(|_| attempts.admit(address("192.0.2.1")).unwrap()).collect();
        let refused = attempts.admit(address("192.0.2.1")).unwrap_err().into_problem();
        assert!(refused.is(Code::AuthSlowed) && refused.retry_after_ms.is_some(), "{refused}");
        assert!(attempts.admit(address("192.0.2.2")).is_ok(), "others are looked at");
        drop(held);
        assert!(attempts.admit(address("192.0.2.1")).is_ok(), "there is a place again");
    }

    #[tokio::test(start_paused = true)]
    async fn who_came_when_there_was_no_room_is_counted_and_held_back_together() {
        let attempts = Attempts::default();
        let of = |nth: u32| Some(std::net::Ipv4Addr::from(nth).into());
        for nth in 0..20_000 {
            attempts.failed(of(nth));
        }
        assert!(attempts.are_too_many(of(30_000)) && !attempts.are_too_many(of(1)));
        let held: Vec<_> = (0..DELAYED_MAX).map(|_| attempts.admit(of(30_000)).unwrap()).collect();
        assert!(attempts.admit(of(30_001)).is_err());
        drop(held);
    }

    #[tokio::test(start_paused = true)]
    async fn one_failure_too_many_is_answered_slowly_and_says_when_to_come_back() {
        let attempts = Attempts::default();
        for _ in 0..=FAILURES_MAX {
            attempts.failed(None);
        }
        let began = Instant::now();
        let guess = attempts.admit(None).unwrap();
        let problem = attempts.slowed(guess, None).await.into_problem();
        assert!(began.elapsed() >= DELAY && problem.status == 429);
        assert!(
            problem.retry_after_ms.is_some_and(|retry_after_ms| (1_000..=60_000).contains(&retry_after_ms))
        );
    }
}
