//! The activity of one connection: opened, sending the head of a request, served, receiving an answer, idle. Its
//! stream and its requests write it without a lock; the supervision reads it to decide when it must end.

use super::limits::ConnectionLimits;
use axum::http::Version;
use std::{
    net::IpAddr,
    sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed},
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// A peer that takes an answer must take this much of it, or the rest, within each `write_timeout`.
const PROGRESS_BYTES: u64 = 64 << 10;

/// Why a connection was ended by the server; a label of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// No complete head of a request arrived in time.
    Head,
    /// There was no request for a long time.
    Idle,
    /// An answer was not taken.
    Write,
    /// Another needed the place more.
    Evicted,
    Stopping,
}

impl Reason {
    pub(crate) const ALL: [Self; 5] = [Self::Head, Self::Idle, Self::Write, Self::Evicted, Self::Stopping];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Head => "head_timeout",
            Self::Idle => "idle",
            Self::Write => "write_timeout",
            Self::Evicted => "evicted",
            Self::Stopping => "stopping",
        }
    }
}

/// The way in which a connection must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Order {
    /// Running requests are answered; no new ones are accepted.
    Finish = 1,
    /// The connection is closed at once.
    Cut = 2,
}

/// The phase in metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ConnectionPhase {
    /// There was no request yet, or its head is incomplete.
    Opening,
    Serving,
    Idle,
    Ending,
}

impl ConnectionPhase {
    pub(crate) const ALL: [Self; 4] = [Self::Opening, Self::Serving, Self::Idle, Self::Ending];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Serving => "serving",
            Self::Idle => "idle",
            Self::Ending => "ending",
        }
    }
}

#[derive(Debug)]
pub(crate) struct ConnectionActivity {
    /// Counted together with others of this address.
    pub(super) counted_as: IpAddr,
    /// Times below are milliseconds since then, and never 0.
    epoch: Instant,
    requests: AtomicU32,
    /// The number of answers whose body is not completely sent, although it is ready.
    bodies: AtomicU32,
    /// The socket takes no more of an answer.
    is_blocked: AtomicBool,
    has_served: AtomicBool,
    is_http2: AtomicBool,
    /// The instant at which the connection was opened, or its last request ended.
    quiet_since: AtomicU64,
    /// The time of the first byte of an incomplete head; 0 if there is none.
    head_since: AtomicU64,
    /// The instant at which the peer last began to read an answer, or had read a good piece of it.
    moved_at: AtomicU64,
    moved_bytes: AtomicU64,
    order: AtomicU8,
    ordered_at: AtomicU64,
    reported: Notify,
}

impl ConnectionActivity {
    pub(super) fn new(counted_as: IpAddr, epoch: Instant) -> Self {
        let activity = Self {
            counted_as,
            epoch,
            requests: AtomicU32::new(0),
            bodies: AtomicU32::new(0),
            is_blocked: AtomicBool::new(false),
            has_served: AtomicBool::new(false),
            is_http2: AtomicBool::new(false),
            quiet_since: AtomicU64::new(0),
            head_since: AtomicU64::new(0),
            moved_at: AtomicU64::new(0),
            moved_bytes: AtomicU64::new(0),
            order: AtomicU8::new(0),
            ordered_at: AtomicU64::new(0),
            reported: Notify::new(),
        };
        activity.quiet_since.store(activity.now(), Relaxed);
        activity
    }

    pub(super) fn now(&self) -> u64 {
        since(self.epoch)
    }

    /// Bytes came in. Between requests they are the beginning of a head.
    pub(super) fn heard(&self) {
        let between = self.requests.load(Relaxed) == 0 && self.head_since.load(Relaxed) == 0;
        if between && !self.is_http2.load(Relaxed) {
            self.head_since.store(self.now(), Relaxed);
        }
    }

    /// Records that a head is complete.
    pub(super) fn request_begins(&self, version: Version) {
        self.requests.fetch_add(1, Relaxed);
        self.head_since.store(0, Relaxed);
        self.has_served.store(true, Relaxed);
        self.is_http2.store(version == Version::HTTP_2, Relaxed);
    }

    /// Records that the answer of a request is sent, or that no caller waits for it any more.
    pub(super) fn request_ends(&self) {
        self.quiet_since.store(self.now(), Relaxed);
        self.requests.fetch_sub(1, Relaxed);
    }

    pub(super) fn body_begins(&self) {
        if self.bodies.fetch_add(1, Relaxed) == 0 && !self.is_blocked.load(Relaxed) {
            self.begin_to_move();
        }
    }

    pub(super) fn body_ends(&self) {
        self.bodies.fetch_sub(1, Relaxed);
    }

    fn begin_to_move(&self) {
        self.moved_at.store(self.now(), Relaxed);
        self.moved_bytes.store(0, Relaxed);
    }

    pub(super) fn wrote(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        if self.moved_bytes.fetch_add(bytes, Relaxed).saturating_add(bytes) >= PROGRESS_BYTES {
            self.begin_to_move();
        }
    }

    pub(super) fn write_blocked(&self) {
        if !self.is_blocked.swap(true, Relaxed) && self.bodies.load(Relaxed) == 0 {
            self.begin_to_move();
        }
    }

    /// Records that nothing waits to be sent.
    pub(super) fn flushed(&self) {
        if self.is_blocked.load(Relaxed) {
            self.is_blocked.store(false, Relaxed);
            self.begin_to_move();
        }
    }

    pub(crate) fn phase(&self) -> ConnectionPhase {
        if self.order.load(Relaxed) > 0 {
            ConnectionPhase::Ending
        } else if self.is_busy() {
            ConnectionPhase::Serving
        } else if self.head_since.load(Relaxed) > 0 || !self.has_served.load(Relaxed) {
            ConnectionPhase::Opening
        } else {
            ConnectionPhase::Idle
        }
    }

    /// A request is under way.
    pub(super) fn is_serving(&self) -> bool {
        self.requests.load(Relaxed) > 0
    }

    fn is_busy(&self) -> bool {
        self.requests.load(Relaxed) > 0 || self.is_blocked.load(Relaxed) || self.bodies.load(Relaxed) > 0
    }

    /// The time since when the connection has been idle, or receiving a head.
    pub(super) fn waits_since(&self) -> u64 {
        match self.head_since.load(Relaxed) {
            0 => self.quiet_since.load(Relaxed),
            at => at,
        }
    }

    /// The order that is due now, if any.
    pub(super) fn judge(&self, now: u64, limits: &ConnectionLimits) -> Option<(Order, Reason)> {
        let is_over = |since: u64, limit: Duration| now.saturating_sub(since) > millis(limit);
        if self.order.load(Relaxed) == Order::Finish as u8 {
            let overdue = is_over(self.ordered_at.load(Relaxed), limits.close_timeout);
            // Those that are served when the server stops have the patience of the stop.
            return (overdue && self.requests.load(Relaxed) == 0).then_some((Order::Cut, Reason::Stopping));
        }
        let is_taking = self.is_blocked.load(Relaxed) || self.bodies.load(Relaxed) > 0;
        if is_taking && is_over(self.moved_at.load(Relaxed), limits.write_timeout) {
            return Some((Order::Cut, Reason::Write));
        }
        match self.phase() {
            ConnectionPhase::Opening if is_over(self.waits_since(), limits.header_timeout) => {
                Some((Order::Cut, Reason::Head))
            }
            ConnectionPhase::Idle if is_over(self.waits_since(), limits.idle_timeout) => {
                Some((Order::Finish, Reason::Idle))
            }
            ConnectionPhase::Opening
            | ConnectionPhase::Idle
            | ConnectionPhase::Serving
            | ConnectionPhase::Ending => None,
        }
    }

    /// True if it had no such order, and no stricter one.
    pub(super) fn raise(&self, order: Order) -> bool {
        let before = self.order.fetch_max(order as u8, Relaxed);
        if before >= order as u8 {
            return false;
        }
        self.ordered_at.store(self.now(), Relaxed);
        self.reported.notify_one();
        true
    }

    /// Waits until there is an order; once for each.
    pub(super) async fn reported(&self) -> Order {
        self.reported.notified().await;
        if self.order.load(Relaxed) >= Order::Cut as u8 { Order::Cut } else { Order::Finish }
    }

    pub(super) fn is_reported(&self) -> bool {
        self.order.load(Relaxed) > 0
    }
}

/// Milliseconds, and never 0, which represents nothing.
pub(super) fn since(epoch: Instant) -> u64 {
    millis(epoch.elapsed()).saturating_add(1)
}

pub(super) fn millis(limit: Duration) -> u64 {
    u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ListenerOptions;
    use std::net::Ipv4Addr;

    fn activity() -> (ConnectionActivity, ConnectionLimits) {
        let limits = ConnectionLimits::of(&ListenerOptions::default(), Some(1_024), 0);
        (ConnectionActivity::new(Ipv4Addr::LOCALHOST.into(), Instant::now()), limits)
    }

    async fn after(limit: Duration) {
        tokio::time::advance(limit + Duration::from_millis(5)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_has_its_time_from_its_first_byte_and_an_idle_connection_a_longer_one() {
        let (activity, limits) = activity();
        assert_eq!(
            (activity.phase(), activity.judge(activity.now(), &limits)),
            (ConnectionPhase::Opening, None)
        );
        after(limits.header_timeout).await;
        assert_eq!(
            activity.judge(activity.now(), &limits),
            Some((Order::Cut, Reason::Head)),
            "nothing was ever sent"
        );
        activity.request_begins(Version::HTTP_11);
        assert_eq!(
            (activity.phase(), activity.judge(activity.now(), &limits)),
            (ConnectionPhase::Serving, None)
        );
        after(limits.idle_timeout * 10).await;
        assert_eq!(activity.judge(activity.now(), &limits), None, "a long poll may last");
        activity.request_ends();
        after(limits.header_timeout).await;
        assert_eq!(
            (activity.phase(), activity.judge(activity.now(), &limits)),
            (ConnectionPhase::Idle, None)
        );
        activity.heard();
        after(limits.header_timeout / 2).await;
        activity.heard();
        after(limits.header_timeout / 2).await;
        assert_eq!(
            activity.judge(activity.now(), &limits),
            Some((Order::Cut, Reason::Head)),
            "byte by byte is no excuse"
        );
        activity.request_begins(Version::HTTP_11);
        activity.request_ends();
        after(limits.idle_timeout).await;
        assert_eq!(activity.judge(activity.now(), &limits), Some((Order::Finish, Reason::Idle)));
    }

    #[tokio::test(start_paused = true)]
    async fn frames_of_http2_between_requests_are_no_half_head() {
        let (activity, limits) = activity();
        activity.request_begins(Version::HTTP_2);
        activity.request_ends();
        activity.heard();
        after(limits.header_timeout).await;
        assert_eq!(
            (activity.phase(), activity.judge(activity.now(), &limits)),
            (ConnectionPhase::Idle, None)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_an_answer_byte_by_byte_is_cut_off_and_who_takes_good_pieces_is_not() {
        let (activity, limits) = activity();
        activity.request_begins(Version::HTTP_11);
        let half = limits.write_timeout / 2;
        activity.write_blocked();
        for _ in 0..5 {
            after(half).await;
            activity.wrote(100 << 10);
            activity.write_blocked();
            assert_eq!(activity.judge(activity.now(), &limits), None);
        }
        after(half).await;
        activity.wrote(1);
        activity.write_blocked();
        after(half).await;
        assert_eq!(activity.judge(activity.now(), &limits), Some((Order::Cut, Reason::Write)));
        activity.flushed();
        assert_eq!(activity.judge(activity.now(), &limits), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_nobody_takes_counts_as_one_that_is_not_taken() {
        let (activity, limits) = activity();
        activity.request_begins(Version::HTTP_2);
        activity.body_begins();
        after(limits.write_timeout).await;
        assert_eq!(activity.judge(activity.now(), &limits), Some((Order::Cut, Reason::Write)));
        activity.body_ends();
        assert_eq!(activity.judge(activity.now(), &limits), None);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_was_told_to_finish_is_cut_when_it_does_not() {
        let (activity, limits) = activity();
        activity.request_begins(Version::HTTP_11);
        activity.request_ends();
        assert!(activity.raise(Order::Finish) && !activity.raise(Order::Finish));
        assert_eq!((activity.reported().await, activity.phase()), (Order::Finish, ConnectionPhase::Ending));
        assert_eq!(activity.judge(activity.now(), &limits), None);
        after(limits.close_timeout).await;
        assert_eq!(activity.judge(activity.now(), &limits).map(|judge| judge.0), Some(Order::Cut));
        assert!(activity.raise(Order::Cut));
        assert_eq!(activity.reported().await, Order::Cut);
    }
}
