//! The connections that there are: who may come in, who has to make room, whose time is over. When all places are
//! taken, a caller that asks nothing is first, the longest idle before others; then connections that have not even asked yet.

use super::{
    activity::{ConnectionActivity, ConnectionPhase, Order, Reason, since},
    limits::{ConnectionLimits, ENDING_MAX},
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
/// The maximum number of places that one search finds.
const FOUND_MAX: usize = 64;
/// The pause after a search that found no place.
const LOOK_AGAIN_MS: u64 = 50;

/// Why a connection was not taken; a label of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RefusedConnection {
    /// All places are taken.
    Full,
    /// The address has its maximum number of connections.
    Address,
    /// Plain HTTP from a caller that is no proxy.
    NotAProxy,
}

impl RefusedConnection {
    pub(crate) const ALL: [Self; 3] = [Self::Full, Self::Address, Self::NotAProxy];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Address => "per_address",
            Self::NotAProxy => "not_a_proxy",
        }
    }
}

/// The counts since the process began.
#[derive(Debug, Default)]
pub(crate) struct ConnectionCounts {
    pub(crate) accepted: AtomicU64,
    pub(crate) accept_failures: AtomicU64,
    refused: [AtomicU64; RefusedConnection::ALL.len()],
    cut: [AtomicU64; Reason::ALL.len()],
}

impl ConnectionCounts {
    pub(crate) fn refuse(&self, why: RefusedConnection) {
        if let Some(counter) = self.refused.get(why as usize) {
            counter.fetch_add(1, Relaxed);
        }
    }

    fn end(&self, why: Reason) {
        if let Some(counter) = self.cut.get(why as usize) {
            counter.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn refused(&self, why: RefusedConnection) -> u64 {
        self.refused.get(why as usize).map_or(0, |counter| counter.load(Relaxed))
    }

    pub(crate) fn ended(&self, why: Reason) -> u64 {
        self.cut.get(why as usize).map_or(0, |counter| counter.load(Relaxed))
    }
}

#[derive(Debug)]
pub(crate) struct Connections {
    pub(crate) limits: ConnectionLimits,
    pub(crate) counts: ConnectionCounts,
    epoch: Instant,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    all: HashMap<u64, Arc<ConnectionActivity>>,
    addresses: HashMap<IpAddr, Address>,
    /// Among all connections, those that make room and have not closed yet. They no longer occupy a place.
    evicted: HashSet<u64>,
    spare: Spare,
}

#[derive(Debug, Default)]
struct Address {
    places: usize,
    spare: Spare,
}

/// Connections that can make room, so that not every new connection searches all of them.
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
    pub(super) activity: Arc<ConnectionActivity>,
}

impl Connections {
    pub(crate) fn new(limits: ConnectionLimits) -> Arc<Self> {
        let (epoch, open) = (Instant::now(), Mutex::default());
        Arc::new(Self { limits, counts: ConnectionCounts::default(), epoch, open })
    }

    /// `is_proxy`: it speaks for many, and its address says nothing.
    pub(super) fn admit(self: &Arc<Self>, peer: IpAddr, is_proxy: bool) -> Result<Pass, RefusedConnection> {
        let counted_as = counted_as(peer);
        let mut open = self.open.lock();
        let now = since(self.epoch);
        if !is_proxy && open.places_of(counted_as) >= self.limits.per_address_max {
            self.make_room(&mut open, Some(counted_as), now).ok_or(RefusedConnection::Address)?;
        }
        if open.all.len() - open.evicted.len() >= self.limits.connections_max {
            self.make_room(&mut open, None, now).ok_or(RefusedConnection::Full)?;
        }
        let activity = Arc::new(ConnectionActivity::new(counted_as, self.epoch));
        let id = open.next;
        open.next += 1;
        open.all.insert(id, Arc::clone(&activity));
        open.addresses.entry(counted_as).or_default().places += 1;
        drop(open);
        self.counts.accepted.fetch_add(1, Relaxed);
        Ok(Pass { connections: Arc::clone(self), id, activity })
    }

    /// Ends one that can make room, or `None` if there is none.
    fn make_room(&self, open: &mut Open, of: Option<IpAddr>, now: u64) -> Option<()> {
        if open.evicted.len() >= ENDING_MAX {
            return None;
        }
        let (id, activity) = open.take_spare(of, now)?;
        // One on a head has no answer to finish.
        let order = if activity.phase() == ConnectionPhase::Idle { Order::Finish } else { Order::Cut };
        if activity.raise(order) {
            self.counts.end(Reason::Evicted);
        }
        open.give_up(id, activity.counted_as);
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
        let all: Vec<Arc<ConnectionActivity>> = self.open.lock().all.values().cloned().collect();
        let now = since(self.epoch);
        for activity in all {
            if let Some((order, why)) = activity.judge(now, &self.limits) {
                self.end(&activity, order, why);
            }
        }
    }

    pub(super) fn end_all(&self, order: Order) {
        let all: Vec<Arc<ConnectionActivity>> = self.open.lock().all.values().cloned().collect();
        for activity in all {
            self.end(&activity, order, Reason::Stopping);
        }
    }

    /// Each is counted once, for what ended it first.
    fn end(&self, activity: &ConnectionActivity, order: Order, why: Reason) {
        let is_first = !activity.is_reported();
        if activity.raise(order) && is_first {
            self.counts.end(why);
        }
    }

    pub(crate) fn phases(&self) -> BTreeMap<ConnectionPhase, usize> {
        let mut phases: BTreeMap<ConnectionPhase, usize> =
            ConnectionPhase::ALL.into_iter().map(|phase| (phase, 0)).collect();
        for activity in self.open.lock().all.values() {
            *phases.entry(activity.phase()).or_default() += 1;
        }
        phases
    }
}

impl Open {
    fn places_of(&self, address: IpAddr) -> usize {
        self.addresses.get(&address).map_or(0, |address| address.places)
    }

    /// One that still can make room, and is no more listed.
    fn take_spare(&mut self, of: Option<IpAddr>, now: u64) -> Option<(u64, Arc<ConnectionActivity>)> {
        let Self { all, addresses, spare, .. } = self;
        let spare = match of {
            Some(address) => &mut addresses.get_mut(&address)?.spare,
            None => spare,
        };
        for _ in 0..2 {
            while let Some(id) = spare.found.pop_front() {
                if let Some(activity) = all.get(&id)
                    && can_go(activity, now).is_some()
                {
                    return Some((id, Arc::clone(activity)));
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
fn can_go(activity: &ConnectionActivity, now: u64) -> Option<(bool, u64)> {
    let since = activity.waits_since();
    match activity.phase() {
        ConnectionPhase::Idle => Some((false, since)),
        ConnectionPhase::Opening if now.saturating_sub(since) > ASKS_WITHIN_MS => Some((true, since)),
        ConnectionPhase::Opening | ConnectionPhase::Serving | ConnectionPhase::Ending => None,
    }
}

fn find(all: &HashMap<u64, Arc<ConnectionActivity>>, of: Option<IpAddr>, now: u64) -> VecDeque<u64> {
    let asked = all.iter().filter(|(_, activity)| of.is_none_or(|of| of == activity.counted_as));
    let mut found: Vec<_> = asked.filter_map(|(id, activity)| Some((can_go(activity, now)?, *id))).collect();
    if found.len() > FOUND_MAX {
        found.select_nth_unstable(FOUND_MAX);
        found.truncate(FOUND_MAX);
    }
    found.sort_unstable();
    found.into_iter().map(|(_, id)| id).collect()
}

/// The address under which a peer is counted. An IPv6 caller has an entire network of addresses.
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
            open.leave(self.activity.counted_as);
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
        Connections::new(ConnectionLimits::of(&options, Some(65_536), 0))
    }

    async fn pass_ms(ms: u64) {
        tokio::time::advance(Duration::from_millis(ms)).await;
    }

    fn idle(pass: &Pass) {
        pass.activity.request_begins(Version::HTTP_11);
        pass.activity.request_ends();
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_makes_room_and_one_that_is_served_never_does() {
        let all = connections(3, 3);
        let served = all.admit(HERE, false).unwrap();
        served.activity.request_begins(Version::HTTP_11);
        let [older, newer] = [all.admit(HERE, false).unwrap(), all.admit(HERE, false).unwrap()];
        idle(&older);
        pass_ms(10).await;
        idle(&newer);
        let third = all.admit(THERE, false).unwrap();
        assert_eq!(
            (older.activity.phase(), newer.activity.phase()),
            (ConnectionPhase::Ending, ConnectionPhase::Idle)
        );
        third.activity.request_begins(Version::HTTP_11);
        let fourth = all.admit(THERE, false).unwrap();
        fourth.activity.request_begins(Version::HTTP_11);
        assert_eq!(newer.activity.phase(), ConnectionPhase::Ending);
        assert_eq!(all.admit(THERE, false).unwrap_err(), RefusedConnection::Full);
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
        assert_eq!(all.admit(THERE, false).unwrap_err(), RefusedConnection::Full);
        pass_ms(LOOK_AGAIN_MS + 1).await;
        assert!(all.admit(THERE, false).is_ok());
        assert_eq!(silent.activity.reported().await, Order::Cut);
    }

    #[tokio::test(start_paused = true)]
    async fn one_address_has_its_share_and_a_trusted_proxy_is_not_counted() {
        let all = connections(100, 2);
        let held: Vec<Pass> = (0..2).map(|_| all.admit(HERE, false).unwrap()).collect();
        held.iter().for_each(|pass| pass.activity.request_begins(Version::HTTP_11));
        assert_eq!(all.admit(HERE, false).unwrap_err(), RefusedConnection::Address);
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
