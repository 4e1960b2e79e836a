//! The connections that there are: who may come in, who has to make room, whose time is over. When all places are
//! taken, whoever asks nothing goes first, the longest idle before others; then whoever has not even asked yet.

use super::{
    limits::{ENDING_MAX, Limits},
    pulse::{Order, Phase, Pulse, Reason, since},
};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};
use tokio::time::Instant;

/// One that has asked nothing so far is given this long before it has to make room: a round trip around the world.
const ASKS_WITHIN_MS: u64 = 1_000;
/// Places that one look finds.
const FOUND_MAX: usize = 64;
/// After a look that found no place.
const LOOK_AGAIN_MS: u64 = 50;

/// Why a connection was not taken; a label of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Refused {
    /// All places are taken.
    Full,
    /// As many as one address may have.
    Address,
    /// Plain HTTP from somebody who is no proxy.
    NotAProxy,
}

impl Refused {
    pub(crate) const ALL: [Self; 3] = [Self::Full, Self::Address, Self::NotAProxy];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Address => "per_address",
            Self::NotAProxy => "not_a_proxy",
        }
    }
}

/// Since the process began.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) accepted: AtomicU64,
    pub(crate) accept_failures: AtomicU64,
    refused: [AtomicU64; Refused::ALL.len()],
    cut: [AtomicU64; Reason::ALL.len()],
}

impl Counts {
    pub(crate) fn refuse(&self, why: Refused) {
        if let Some(counter) = self.refused.get(why as usize) {
            counter.fetch_add(1, Relaxed);
        }
    }

    fn end(&self, why: Reason) {
        if let Some(counter) = self.cut.get(why as usize) {
            counter.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn refused(&self, why: Refused) -> u64 {
        self.refused.get(why as usize).map_or(0, |counter| counter.load(Relaxed))
    }

    pub(crate) fn ended(&self, why: Reason) -> u64 {
        self.cut.get(why as usize).map_or(0, |counter| counter.load(Relaxed))
    }
}

#[derive(Debug)]
pub(crate) struct Connections {
    pub(crate) limits: Limits,
    pub(crate) counts: Counts,
    epoch: Instant,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    all: HashMap<u64, Arc<Pulse>>,
    addresses: HashMap<IpAddr, Address>,
    /// Of all: those that make room and are not gone yet. They have no place any more.
    evicted: HashSet<u64>,
    spare: Spare,
}

#[derive(Debug, Default)]
struct Address {
    places: usize,
    spare: Spare,
}

/// Connections that were found to be able to make room, so that not every newcomer looks at all of them.
#[derive(Debug, Default)]
struct Spare {
    found: VecDeque<u64>,
    look_again_at: u64,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(super) struct Pass {
    connections: Arc<Connections>,
    id: u64,
    pub(super) pulse: Arc<Pulse>,
}

impl Connections {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        let (epoch, open) = (Instant::now(), Mutex::default());
        Arc::new(Self { limits, counts: Counts::default(), epoch, open })
    }

    /// `is_proxy`: it speaks for many, and its address says nothing.
    pub(super) fn admit(self: &Arc<Self>, peer: IpAddr, is_proxy: bool) -> Result<Pass, Refused> {
        let counted_as = counted_as(peer);
        let mut open = self.open.lock();
        let now = since(self.epoch);
        if !is_proxy && open.places_of(counted_as) >= self.limits.per_address_max {
            self.make_room(&mut open, Some(counted_as), now).ok_or(Refused::Address)?;
        }
        if open.all.len() - open.evicted.len() >= self.limits.connections_max {
            self.make_room(&mut open, None, now).ok_or(Refused::Full)?;
        }
        let pulse = Arc::new(Pulse::new(counted_as, self.epoch));
        let id = open.next;
        open.next += 1;
        open.all.insert(id, Arc::clone(&pulse));
        open.addresses.entry(counted_as).or_default().places += 1;
        drop(open);
        self.counts.accepted.fetch_add(1, Relaxed);
        Ok(Pass { connections: Arc::clone(self), id, pulse })
    }

    /// Ends one that can make room; None: there is none.
    fn make_room(&self, open: &mut Open, of: Option<IpAddr>, now: u64) -> Option<()> {
        if open.evicted.len() >= ENDING_MAX {
            return None;
        }
        let (id, pulse) = open.take_spare(of, now)?;
        // One on a head has no answer to finish.
        let order = if pulse.phase() == Phase::Idle { Order::Finish } else { Order::Cut };
        if pulse.tell(order) {
            self.counts.end(Reason::Evicted);
        }
        open.give_up(id, pulse.counted_as);
        Some(())
    }

    /// One that can make room makes it, for a descriptor that the system has not.
    pub(super) fn shed_one(&self) {
        let mut open = self.open.lock();
        let now = since(self.epoch);
        let _ = self.make_room(&mut open, None, now);
    }

    /// Ends those whose time is over.
    pub(super) fn look(&self) {
        let all: Vec<Arc<Pulse>> = self.open.lock().all.values().cloned().collect();
        let now = since(self.epoch);
        for pulse in all {
            if let Some((order, why)) = pulse.judge(now, &self.limits) {
                self.end(&pulse, order, why);
            }
        }
    }

    pub(super) fn end_all(&self, order: Order) {
        let all: Vec<Arc<Pulse>> = self.open.lock().all.values().cloned().collect();
        for pulse in all {
            self.end(&pulse, order, Reason::Stopping);
        }
    }

    /// Each is counted once, for what ended it first.
    fn end(&self, pulse: &Pulse, order: Order, why: Reason) {
        let is_first = !pulse.is_told();
        if pulse.tell(order) && is_first {
            self.counts.end(why);
        }
    }

    pub(crate) fn phases(&self) -> BTreeMap<Phase, usize> {
        let mut phases: BTreeMap<Phase, usize> = Phase::ALL.into_iter().map(|phase| (phase, 0)).collect();
        for pulse in self.open.lock().all.values() {
            *phases.entry(pulse.phase()).or_default() += 1;
        }
        phases
    }
}

impl Open {
    fn places_of(&self, address: IpAddr) -> usize {
        self.addresses.get(&address).map_or(0, |address| address.places)
    }

    /// One that still can make room, and is no more listed.
    fn take_spare(&mut self, of: Option<IpAddr>, now: u64) -> Option<(u64, Arc<Pulse>)> {
        let Self { all, addresses, spare, .. } = self;
        let spare = match of {
            Some(address) => &mut addresses.get_mut(&address)?.spare,
            None => spare,
        };
        for _ in 0..2 {
            while let Some(id) = spare.found.pop_front() {
                if let Some(pulse) = all.get(&id)
                    && can_go(pulse, now).is_some()
                {
                    return Some((id, Arc::clone(pulse)));
                }
            }
            if now < spare.look_again_at {
                return None;
            }
            spare.found = find(all, of, now);
            if spare.found.is_empty() {
                spare.look_again_at = now + LOOK_AGAIN_MS;
                return None;
            }
        }
        None
    }

    /// It has no place any more, although it is not gone.
    fn give_up(&mut self, id: u64, address: IpAddr) {
        if self.evicted.insert(id) {
            self.leave(address);
        }
    }

    fn leave(&mut self, address: IpAddr) {
        if let Some(this_address) = self.addresses.get_mut(&address) {
            this_address.places = this_address.places.saturating_sub(1);
            if this_address.places == 0 {
                self.addresses.remove(&address);
            }
        }
    }
}

/// The order in which connections go: idle ones first, then those that wait the longest.
fn can_go(pulse: &Pulse, now: u64) -> Option<(bool, u64)> {
    let since = pulse.waits_since();
    match pulse.phase() {
        Phase::Idle => Some((false, since)),
        Phase::Opening if now.saturating_sub(since) > ASKS_WITHIN_MS => Some((true, since)),
        Phase::Opening | Phase::Serving | Phase::Ending => None,
    }
}

fn find(all: &HashMap<u64, Arc<Pulse>>, of: Option<IpAddr>, now: u64) -> VecDeque<u64> {
    let asked = all.iter().filter(|(_, pulse)| of.is_none_or(|of| of == pulse.counted_as));
    let mut found: Vec<_> = asked.filter_map(|(id, pulse)| Some((can_go(pulse, now)?, *id))).collect();
    if found.len() > FOUND_MAX {
        found.select_nth_unstable(FOUND_MAX);
        found.truncate(FOUND_MAX);
    }
    found.sort_unstable();
    found.into_iter().map(|(_, id)| id).collect()
}

/// Whoever has IPv6 has a whole network of it.
fn counted_as(peer: IpAddr) -> IpAddr {
    const NETWORK: u128 = !(u64::MAX as u128);
    match peer.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) & NETWORK).into(),
        canonical @ IpAddr::V4(_) => canonical,
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut open = self.connections.open.lock();
        open.all.remove(&self.id);
        if !open.evicted.remove(&self.id) {
            open.leave(self.pulse.counted_as);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ListenerOptions;
    use axum::http::Version;
    use std::{net::Ipv4Addr, time::Duration};

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

    fn connections(all: usize, per_address: usize) -> Arc<Connections> {
        let options = ListenerOptions {
            connections_max: Some(all),
            connections_per_address_max: Some(per_address),
            ..ListenerOptions::default()
        };
        Connections::new(Limits::of(&options, Some(65_536), 0))
    }

    async fn pass_ms(ms: u64) {
        tokio::time::advance(Duration::from_millis(ms)).await;
    }

    fn idle(pass: &Pass) {
        pass.pulse.request_begins(Version::HTTP_11);
        pass.pulse.request_ends();
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_makes_room_and_one_that_is_served_never_does() {
        let all = connections(3, 3);
        let served = all.admit(HERE, false).unwrap();
        served.pulse.request_begins(Version::HTTP_11);
        let [older, newer] = [all.admit(HERE, false).unwrap(), all.admit(HERE, false).unwrap()];
        idle(&older);
        pass_ms(10).await;
        idle(&newer);
        let third = all.admit(THERE, false).unwrap();
        assert_eq!((older.pulse.phase(), newer.pulse.phase()), (Phase::Ending, Phase::Idle));
        third.pulse.request_begins(Version::HTTP_11);
        let fourth = all.admit(THERE, false).unwrap();
        fourth.pulse.request_begins(Version::HTTP_11);
        assert_eq!(newer.pulse.phase(), Phase::Ending);
        assert_eq!(all.admit(THERE, false).unwrap_err(), Refused::Full);
        assert_eq!(all.counts.ended(Reason::Evicted), 2);
        drop(served);
        pass_ms(LOOK_AGAIN_MS).await;
        assert!(all.admit(THERE, false).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_nothing_has_a_second_before_it_makes_room() {
        let all = connections(1, 1);
        let silent = all.admit(HERE, false).unwrap();
        pass_ms(ASKS_WITHIN_MS).await;
        assert_eq!(all.admit(THERE, false).unwrap_err(), Refused::Full);
        pass_ms(LOOK_AGAIN_MS + 1).await;
        assert!(all.admit(THERE, false).is_ok());
        assert_eq!(silent.pulse.told().await, Order::Cut);
    }

    #[tokio::test(start_paused = true)]
    async fn one_address_has_its_share_and_a_trusted_proxy_is_not_counted() {
        let all = connections(100, 2);
        let held: Vec<Pass> = (0..2).map(|_| all.admit(HERE, false).unwrap()).collect();
        held.iter().for_each(|pass| pass.pulse.request_begins(Version::HTTP_11));
        assert_eq!(all.admit(HERE, false).unwrap_err(), Refused::Address);
        assert!(all.admit(THERE, false).is_ok() && all.admit(HERE, true).is_ok());
        drop(held);
        assert!(all.admit(HERE, false).is_ok());
        let mapped = Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped().into();
        assert_eq!(counted_as(mapped), THERE);
        let [one, other]: [IpAddr; 2] = ["2001:db8::1", "2001:db8::ffff:1"].map(|name| name.parse().unwrap());
        assert_eq!(counted_as(one), counted_as(other));
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_a_few_end_beside_those_that_came_for_them() {
        let all = connections(2 * ENDING_MAX, 2 * ENDING_MAX);
        let held: Vec<Pass> = (0..2 * ENDING_MAX).map(|_| all.admit(HERE, false).unwrap()).collect();
        held.iter().for_each(idle);
        let came: Vec<_> = (0..2 * ENDING_MAX).filter_map(|_| all.admit(THERE, false).ok()).collect();
        assert_eq!(came.len(), ENDING_MAX);
        drop(held);
        assert!(all.open.lock().evicted.is_empty());
        drop(came);
        assert!(all.open.lock().addresses.is_empty());
    }
}
