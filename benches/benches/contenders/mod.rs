//! The timer structures that the wheel is compared with, behind one trait, and the workload they all get.
//!
//! Every contender carries a payload of eight bytes and is driven in ticks of 1 ms. A new contender is added here
//! and in `with_each!`; nothing here may favour one of them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use hierarchical_hash_wheel_timer::wheels::cancellable::{CancellableTimerEntry, QuadWheelWithOverflow};
use punctual_wheel::{Key, Wheel};
use tokio::runtime::{Builder, Runtime};
use tokio_util::time::{DelayQueue, delay_queue};

/// Deadlines are spread over one hour.
pub(crate) const TICKS: u32 = 3_600_000;

pub(crate) trait Contender {
    type Key: Copy;
    const NAME: &'static str;
    /// Whether an entry can be withdrawn; `cancel` of one that cannot is not called.
    const CANCELS: bool = true;
    /// Whether a tick without timers costs more than a few ns, which must then be subtracted.
    const HAS_CLOCK: bool = false;

    fn new() -> Self;
    /// `deadline_ms` from the start, 1 to `TICKS`.
    fn insert(&mut self, deadline_ms: u32, payload: u64) -> Self::Key;
    fn cancel(&mut self, key: Self::Key) -> bool;
    /// One millisecond passes; returns how many fired.
    fn tick(&mut self) -> usize;
}

/// Calls a generic function once for each contender.
#[macro_export]
macro_rules! with_each {
    ($function:ident ( $($argument:expr),* )) => {
        $function::<$crate::contenders::OurWheel>($($argument),*);
        $function::<$crate::contenders::StdHeap>($($argument),*);
        $function::<$crate::contenders::TokioQueue>($($argument),*);
        $function::<$crate::contenders::HashWheel>($($argument),*);
    };
}

pub(crate) struct OurWheel {
    wheel: Wheel<u64>,
    now_ms: i64,
    due: Vec<(i64, u64)>,
}

impl Contender for OurWheel {
    type Key = Key;
    const NAME: &'static str = "punctual-wheel";

    fn new() -> Self {
        let now_ms = 1_700_000_000_000;
        Self { wheel: Wheel::new(now_ms), now_ms, due: Vec::new() }
    }

    fn insert(&mut self, deadline_ms: u32, payload: u64) -> Key {
        self.wheel.insert(self.now_ms + i64::from(deadline_ms), payload)
    }

    fn cancel(&mut self, key: Key) -> bool {
        self.wheel.cancel(key).is_some()
    }

    fn tick(&mut self) -> usize {
        self.now_ms += 1;
        self.due.clear();
        self.wheel.advance(self.now_ms, &mut self.due);
        self.due.len()
    }
}

pub(crate) struct StdHeap {
    heap: BinaryHeap<Reverse<(u64, u64)>>,
    now_ms: u64,
}

impl Contender for StdHeap {
    type Key = ();
    const NAME: &'static str = "std BinaryHeap";
    const CANCELS: bool = false;

    fn new() -> Self {
        Self { heap: BinaryHeap::new(), now_ms: 0 }
    }

    fn insert(&mut self, deadline_ms: u32, payload: u64) {
        self.heap.push(Reverse((self.now_ms + u64::from(deadline_ms), payload)));
    }

    fn cancel(&mut self, (): ()) -> bool {
        false
    }

    fn tick(&mut self) -> usize {
        self.now_ms += 1;
        let mut fired = 0;
        while self.heap.peek().is_some_and(|Reverse((deadline_ms, _))| *deadline_ms <= self.now_ms) {
            self.heap.pop();
            fired += 1;
        }
        fired
    }
}

/// Runs under a paused clock, which is moved manually.
pub(crate) struct TokioQueue {
    runtime: Runtime,
    queue: DelayQueue<u64>,
    start: tokio::time::Instant,
}

impl Contender for TokioQueue {
    type Key = delay_queue::Key;
    const NAME: &'static str = "tokio-util DelayQueue";
    const HAS_CLOCK: bool = true;

    fn new() -> Self {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without io");
        let context = runtime.enter();
        let (queue, start) = (DelayQueue::new(), tokio::time::Instant::now());
        drop(context);
        Self { runtime, queue, start }
    }

    fn insert(&mut self, deadline_ms: u32, payload: u64) -> delay_queue::Key {
        let _context = self.runtime.enter();
        self.queue.insert_at(payload, self.start + Duration::from_millis(u64::from(deadline_ms)))
    }

    fn cancel(&mut self, key: delay_queue::Key) -> bool {
        self.queue.try_remove(&key).is_some()
    }

    fn tick(&mut self) -> usize {
        let Self { runtime, queue, .. } = self;
        runtime.block_on(async {
            tokio::time::advance(Duration::from_millis(1)).await;
            let mut context = Context::from_waker(Waker::noop());
            let mut fired = 0;
            while let Poll::Ready(Some(_)) = queue.poll_expired(&mut context) {
                fired += 1;
            }
            fired
        })
    }
}

#[derive(Debug)]
pub(crate) struct HashEntry(u64);

impl CancellableTimerEntry for HashEntry {
    type Id = u64;

    fn id(&self) -> &u64 {
        &self.0
    }
}

pub(crate) struct HashWheel(QuadWheelWithOverflow<HashEntry>);

impl Contender for HashWheel {
    type Key = u64;
    const NAME: &'static str = "hierarchical_hash_wheel_timer";

    fn new() -> Self {
        Self(QuadWheelWithOverflow::new())
    }

    fn insert(&mut self, deadline_ms: u32, payload: u64) -> u64 {
        let delay = Duration::from_millis(u64::from(deadline_ms));
        self.0.insert_ref_with_delay(Rc::new(HashEntry(payload)), delay).expect("the delay is not zero");
        payload
    }

    fn cancel(&mut self, key: u64) -> bool {
        self.0.cancel(&key).is_ok()
    }

    fn tick(&mut self) -> usize {
        self.0.tick().len()
    }
}

/// The same numbers in every run (splitmix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Uniform in `0..bound`, but for a bias of no account here.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1);
            items.swap(last, usize::try_from(other).expect("below a length"));
        }
    }
}

/// Deadlines of `count` timers, spread evenly at random over the hour.
pub(crate) fn deadlines(count: usize) -> Vec<u32> {
    let mut random = Random::new(count as u64);
    (0..count).map(|_| 1 + u32::try_from(random.below(u64::from(TICKS))).expect("an hour fits")).collect()
}

/// A contender with a timer at each deadline, and their keys.
pub(crate) fn filled<C: Contender>(deadlines: &[u32]) -> (C, Vec<C::Key>) {
    let mut contender = C::new();
    let keys =
        (0u64..).zip(deadlines).map(|(payload, deadline)| contender.insert(*deadline, payload)).collect();
    (contender, keys)
}

/// Lets the hour pass; every timer must have fired.
pub(crate) fn expire<C: Contender>(contender: &mut C, expected: usize) {
    let fired: usize = (0..TICKS).map(|_| contender.tick()).sum();
    assert_eq!(fired, expected, "{} lost timers", C::NAME);
}
