//! Holds back deliveries to a host that does not answer, so that its tasks lose no attempts. The host is scheme, name and
//! port: queues with other hosts do not notice. Pure: the instant is an argument.

use parking_lot::Mutex;
use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};
use tokio::time::Instant;

/// Failed deliveries in a row after which a host is left alone.
const FAILURES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Whether deliveries to a host may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permit {
    Open,
    /// One, to see whether the host answers again.
    One,
    Wait(Duration),
}

#[derive(Clone, Debug, Default)]
struct Host {
    failures: u32,
    /// Pauses since the last answer.
    pauses: u32,
    until: Option<Instant>,
    error: String,
}

#[derive(Debug, Default)]
pub(crate) struct Breakers(Mutex<HashMap<String, Host>>);

impl Breakers {
    pub(crate) fn permit(&self, host: &str, now: Instant) -> Permit {
        let hosts = self.0.lock();
        match hosts.get(host).and_then(|host| host.until) {
            None => Permit::Open,
            Some(until) if until <= now => Permit::One,
            Some(until) => Permit::Wait(until - now),
        }
    }

    pub(crate) fn answered(&self, host: &str) {
        self.0.lock().remove(host);
    }

    pub(crate) fn failed(&self, host: &str, error: &str, now: Instant) {
        let mut hosts = self.0.lock();
        let host = hosts.entry(host.to_owned()).or_default();
        host.failures = host.failures.saturating_add(1);
        error.clone_into(&mut host.error);
        // Deliveries that began before the pause do not make it longer.
        let is_paused = host.until.is_some_and(|until| until > now);
        if host.failures >= FAILURES && !is_paused {
            let doubled = FIRST_PAUSE.saturating_mul(1 << host.pauses.min(10));
            host.pauses = host.pauses.saturating_add(1);
            host.until = Some(now + doubled.min(LONGEST_PAUSE));
        }
    }

    /// Why deliveries to a host are held back. `None` if they are not.
    pub(crate) fn trouble(&self, host: &str) -> Option<String> {
        let hosts = self.0.lock();
        let host_state = hosts.get(host).filter(|host| host.until.is_some())?;
        Some(format!("{host}: the last {} deliveries have failed: {}", host_state.failures, host_state.error))
    }

    /// Forgets hosts to which no queue is delivered any more.
    pub(crate) fn retain(&self, hosts: &HashSet<String>) {
        self.0.lock().retain(|host, _| hosts.contains(host));
    }

    pub(crate) fn held_back(&self) -> usize {
        self.0.lock().values().filter(|host| host.until.is_some()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_host_is_left_alone_longer_each_time_and_an_answer_ends_it() {
        let (breakers, mut now) = (Breakers::default(), Instant::now());
        for _ in 1..FAILURES {
            breakers.failed("a", "refused", now);
        }
        assert_eq!(breakers.permit("a", now), Permit::Open);
        assert_eq!(breakers.trouble("a"), None);
        let mut expected = FIRST_PAUSE;
        for _ in 0..10 {
            breakers.failed("a", "refused", now);
            breakers.failed("a", "refused", now);
            assert_eq!(breakers.permit("a", now), Permit::Wait(expected), "a second failure changes nothing");
            now += expected;
            assert_eq!(breakers.permit("a", now), Permit::One);
            expected = (expected * 2).min(LONGEST_PAUSE);
        }
        assert_eq!((breakers.permit("b", now), breakers.held_back()), (Permit::Open, 1), "another host");
        assert!(breakers.trouble("a").unwrap().contains("refused"));
        breakers.answered("a");
        assert_eq!((breakers.permit("a", now), breakers.held_back()), (Permit::Open, 0));
        breakers.failed("a", "refused", now);
        assert_eq!(breakers.permit("a", now), Permit::Open, "it counts from the beginning");
    }
}
