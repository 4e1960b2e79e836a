//! Scopes of limits, and token buckets. The functions are pure and compute with integers: the limiters in memory and
//! in Redis (`hot/lua/limit_*.lua`) compute the same, and every number stays below 2^53, which Lua represents
//! exactly.

use crate::{
    name::{Name, QueueKey},
    settings::Rate,
    time::Millis,
};
use std::fmt;

/// The scope of a limit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    Everything,
    Namespace(Name),
    Queue(QueueKey),
    /// The tasks of a queue that are tried again.
    Retries(QueueKey),
    /// The tasks of a queue that name this key.
    Key(QueueKey, String),
    /// Tasks that an executor of a namespace holds, of any queue.
    Executor(Name, Name),
}

impl Scope {
    /// One spelling, in Redis too. A slash is in no name.
    #[must_use]
    pub fn word(&self) -> String {
        match self {
            Self::Everything => "e".to_owned(),
            Self::Namespace(name) => format!("n:{name}"),
            Self::Queue(queue) => format!("q:{}/{}", queue.namespace, queue.queue),
            Self::Retries(queue) => format!("r:{}/{}", queue.namespace, queue.queue),
            Self::Key(queue, key) => format!("k:{}/{}/{key}", queue.namespace, queue.queue),
            Self::Executor(namespace, name) => format!("x:{namespace}/{name}"),
        }
    }

    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        if word == "e" {
            return Some(Self::Everything);
        }
        let (kind, rest) = word.split_once(':')?;
        if kind == "n" {
            return Some(Self::Namespace(Name::new(rest).ok()?));
        }
        let (namespace, rest) = rest.split_once('/')?;
        let queue = |name: &str| {
            Some(QueueKey { namespace: Name::new(namespace).ok()?, queue: Name::new(name).ok()? })
        };
        match kind {
            "x" => Some(Self::Executor(Name::new(namespace).ok()?, Name::new(rest).ok()?)),
            "q" => Some(Self::Queue(queue(rest)?)),
            "r" => Some(Self::Retries(queue(rest)?)),
            "k" => rest.split_once('/').and_then(|(name, key)| Some(Self::Key(queue(name)?, key.to_owned()))),
            _ => None,
        }
    }

    #[must_use]
    pub const fn queue(&self) -> Option<&QueueKey> {
        match self {
            Self::Everything | Self::Namespace(_) | Self::Executor(..) => None,
            Self::Queue(queue) | Self::Retries(queue) | Self::Key(queue, _) => Some(queue),
        }
    }
}

/// Describes the scope to a person.
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everything => f.write_str("everything"),
            Self::Namespace(name) => write!(f, "namespace \"{name}\""),
            Self::Queue(queue) => write!(f, "queue \"{}\"", queue.queue),
            Self::Retries(queue) => write!(f, "the retries of queue \"{}\"", queue.queue),
            Self::Key(queue, key) => write!(f, "key {key:?} of queue \"{}\"", queue.queue),
            Self::Executor(_, name) => write!(f, "executor \"{name}\""),
        }
    }
}

/// A rate whose numbers can be computed exactly: larger ones count as the nearest such number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Units added per ms.
    pub limit: i64,
    /// Units that one start costs.
    pub period_ms: i64,
    /// Starts that fit in the bucket.
    pub burst: i64,
}

/// A day.
const PERIOD_MAX_MS: i64 = 86_400_000;
const COUNT_MAX: u32 = 1_000_000;

impl Flow {
    #[must_use]
    pub fn of(rate: Rate) -> Self {
        Self {
            limit: i64::from(rate.limit.min(COUNT_MAX)),
            period_ms: rate.period_ms.clamp(1, PERIOD_MAX_MS),
            burst: i64::from(rate.burst.clamp(1, COUNT_MAX)),
        }
    }

    const fn full(self) -> i64 {
        self.burst * self.period_ms
    }
}

/// A bucket's content: `limit` units are added per ms, and a start costs `period_ms` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    units: i64,
    period_ms: i64,
    at: Millis,
}

impl Bucket {
    #[must_use]
    pub const fn full(flow: Flow, at: Millis) -> Self {
        Self { units: flow.full(), period_ms: flow.period_ms, at }
    }

    /// The bucket at `now`, on the limiter's clock. Under a new rate it preserves its complete starts, up to the
    /// burst.
    #[must_use]
    pub fn at(self, flow: Flow, now: Millis) -> Self {
        let units = if self.period_ms == flow.period_ms {
            self.units
        } else {
            (self.units / self.period_ms).min(flow.burst) * flow.period_ms
        };
        let elapsed_ms = now.since(self.at).max(0);
        let missing = (flow.full() - units).max(0);
        // Compared before they are multiplied: a bucket that rested for years is full.
        let is_full = flow.limit > 0 && elapsed_ms > missing / flow.limit;
        let units = if is_full { flow.full() } else { (units + elapsed_ms * flow.limit).min(flow.full()) };
        Self { units, period_ms: flow.period_ms, at: now.max(self.at) }
    }

    /// The units, the period for which they count, and their instant: the stored form.
    #[must_use]
    pub const fn kept(&self) -> (i64, i64, Millis) {
        (self.units, self.period_ms, self.at)
    }

    /// Restores a bucket from its stored fields.
    #[must_use]
    pub fn of_kept(units: i64, period_ms: i64, at: Millis) -> Self {
        Self { units, period_ms: period_ms.max(1), at }
    }

    /// Starts that are in it.
    #[must_use]
    pub const fn starts(&self) -> i64 {
        self.units / self.period_ms
    }

    /// Takes one start; false: there is none.
    pub const fn take(&mut self) -> bool {
        let is_there = self.units >= self.period_ms;
        if is_there {
            self.units -= self.period_ms;
        }
        is_there
    }

    /// The time until the bucket contains a start. `None` means forever.
    #[must_use]
    pub fn wait_ms(&self, flow: Flow) -> Option<i64> {
        let missing = (self.period_ms - self.units).max(0);
        if missing == 0 {
            return Some(0);
        }
        (flow.limit > 0).then(|| (missing + flow.limit - 1) / flow.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(limit: u32, period_ms: i64, burst: u32) -> Flow {
        Flow::of(Rate { limit, period_ms, burst })
    }

    #[test]
    fn words_come_back_as_they_went() {
        let queue = QueueKey { namespace: Name::new("eu:1").unwrap(), queue: Name::new("a.b").unwrap() };
        for scope in [
            Scope::Everything,
            Scope::Namespace(queue.namespace.clone()),
            Scope::Queue(queue.clone()),
            Scope::Retries(queue.clone()),
            Scope::Key(queue.clone(), "any/thing: at \u{0} all".to_owned()),
            Scope::Key(queue, String::new()),
            Scope::Executor(Name::new("eu:1").unwrap(), Name::new("mailer-1").unwrap()),
        ] {
            assert_eq!(Scope::from_word(&scope.word()), Some(scope));
        }
        for word in ["", "x", "q:mail", "k:a/b", "e:", "n:", "x:a", "x:a/b/c"] {
            assert_eq!(Scope::from_word(word), None, "{word:?}");
        }
    }

    #[test]
    fn a_bucket_gives_its_burst_at_once_and_then_its_rate() {
        let flow = rate(10, 1_000, 3);
        let mut bucket = Bucket::full(flow, Millis(0));
        let mut taken = Vec::new();
        for ms in 0..1_000 {
            bucket = bucket.at(flow, Millis(ms));
            while bucket.take() {
                taken.push(ms);
            }
        }
        assert_eq!(taken[..5], [0, 0, 0, 100, 200]);
        assert_eq!(taken.len(), 12);
        assert_eq!(bucket.wait_ms(flow), Some(1));
        assert_eq!(Bucket::full(rate(0, 1, 1), Millis(0)).wait_ms(rate(0, 1, 1)), Some(0));
        let mut never = Bucket::full(rate(0, 1, 1), Millis(0));
        assert!(never.take() && never.wait_ms(rate(0, 1, 1)).is_none());
    }

    #[test]
    fn numbers_stay_exact_and_a_long_rest_fills_no_further() {
        let flow = rate(u32::MAX, i64::MAX, u32::MAX);
        assert!(flow.full() < 1 << 53);
        let mut empty = Bucket::full(flow, Millis(0));
        while empty.take() {}
        let full = empty.at(flow, Millis::MAX);
        assert_eq!(full.starts(), flow.burst);
        let slower = full.at(rate(1, 1_000, 5), Millis::MAX);
        assert_eq!(slower.starts(), 5, "a new rate keeps what fits");
    }

    proptest! {
        /// Calls at any time, some with a clock that is behind: no window has more starts than the burst plus
        /// the rate's starts in it.
        #[test]
        fn never_over_the_rate(
            steps in prop::collection::vec((0..400_i64, 0..1_000_i64), 1..120), limit in 0..20_u32, burst in 1..5_u32,
        ) {
            let flow = rate(limit, 1_000, burst);
            let (mut now_ms, mut starts, mut bucket) = (0, Vec::new(), Bucket::full(flow, Millis(0)));
            for (pause_ms, behind_ms) in steps {
                now_ms += pause_ms;
                let late = bucket.at(flow, Millis(now_ms - behind_ms));
                bucket = late.at(flow, Millis(now_ms));
                while bucket.take() {
                    starts.push(now_ms);
                }
            }
            for (nth, from) in starts.iter().enumerate() {
                for (count, to) in (1..).zip(&starts[nth..]) {
                    prop_assert!(count * 1_000 <= i64::from(burst) * 1_000 + (to - from) * i64::from(limit));
                }
            }
        }
    }
}
