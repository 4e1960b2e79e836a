//! Numbers by queue, with a bound on the queues that have series of their own.

use super::{
    EXECUTOR_SLOTS_HELD, EXECUTOR_SLOTS_LIMIT, EXECUTORS_SATURATED, KEY_SLOTS_HELD_MAX, KEY_SLOTS_LIMIT,
    KEYS_SATURATED, LATENESS, Metric, OUTCOMES, PROCESSING, QUEUE_PAUSED, RETRY_SLOTS_HELD,
    RETRY_SLOTS_LIMIT, SHARE_SLOTS, SHARE_SLOTS_HELD, SHARE_STARTS, SHARED_SLOTS_HELD, SHARED_SLOTS_LIMIT,
    SLOTS_HELD, SLOTS_LIMIT, TASKS, TASKS_BLOCKED, TASKS_CANCELLED, TASKS_DEAD, TASKS_DISPATCHED,
    TASKS_EARLY, TASKS_FIRED, TASKS_INSERTED, TASKS_OVER_BUDGET, TASKS_PARKED, TASKS_READY, TASKS_RETRIED,
    TASKS_THROTTLED,
    exposition::{Buckets, Exposition, seconds},
};
use punctual_contract::store::Books;
use punctual_domain::{name::QueueKey, time::Millis};
use punctual_engine::{
    AttemptEnd, Depth, ExecutorSlots, LATENESS_BOUNDS_MS, ManySlots, NamespaceShare, Processing,
    QUEUES_REPORTED_SEPARATELY, QueueNumbers, SharedSlots, Slots,
};
use std::collections::{BTreeMap, BTreeSet};

/// The name for all other queues. No queue has brackets in its name.
const OTHER: &str = "(other)";

/// The queues with their own series: those that the engine tells apart. If they are fewer than may be shown, the
/// first by name of those that any other source has are added.
#[derive(Debug)]
pub(super) struct ShownQueues<'a>(BTreeSet<&'a QueueKey>);

type Label<'a> = (&'a str, &'a str);
type Count = fn(&QueueNumbers) -> u64;
type SharedCount = fn(&SharedSlots) -> u64;

impl<'a> ShownQueues<'a> {
    pub(super) fn of(numbers: &'a [QueueNumbers], queues: impl Iterator<Item = &'a QueueKey>) -> Self {
        let told_apart = numbers.iter().filter(|numbers| !numbers.outcomes.shares_histogram);
        let mut shown: BTreeSet<&QueueKey> = told_apart.map(|numbers| &*numbers.queue).collect();
        let others: BTreeSet<&QueueKey> = queues.filter(|queue| !shown.contains(queue)).collect();
        let room = QUEUES_REPORTED_SEPARATELY.saturating_sub(shown.len());
        shown.extend(others.into_iter().take(room));
        Self(shown)
    }

    fn label(&self, queue: &'a QueueKey) -> Label<'a> {
        if self.0.contains(queue) { (queue.namespace.as_str(), queue.queue.as_str()) } else { (OTHER, OTHER) }
    }
}

pub(super) fn states<'a>(out: &mut Exposition, shown: &ShownQueues<'a>, books: &'a Books) {
    let mut sums: BTreeMap<(Label<'_>, &str), i64> = BTreeMap::new();
    for tally in &books.tallies {
        *sums.entry((shown.label(&tally.queue), tally.state.word())).or_default() += tally.tasks;
    }
    out.begin(&TASKS);
    for (((namespace, queue), state), tasks) in sums {
        out.sample(&TASKS, &[namespace, queue, state], tasks);
    }
}

pub(super) fn ready<'a>(out: &mut Exposition, shown: &ShownQueues<'a>, depth: &'a Depth) {
    for (metric, tasks) in [(&TASKS_READY, &depth.ready), (&TASKS_PARKED, &depth.parked)] {
        let tasks = tasks.iter().map(|(queue, tasks)| (queue.as_ref(), *tasks));
        gauge(out, shown, metric, tasks);
    }
}

pub(super) fn slots<'a>(out: &mut Exposition, shown: &ShownQueues<'a>, slots: &'a [Slots]) {
    gauge(out, shown, &SLOTS_HELD, slots.iter().map(|slot| (slot.queue.as_ref(), slot.held)));
    let most = |slots: &Slots| usize::try_from(slots.most).unwrap_or(usize::MAX);
    gauge(out, shown, &SLOTS_LIMIT, slots.iter().map(|slot| (slot.queue.as_ref(), most(slot))));
}

pub(super) fn many_slots<'a>(out: &mut Exposition, shown: &ShownQueues<'a>, slots: &'a ManySlots) {
    let most = |slot: u32| usize::try_from(slot).unwrap_or(usize::MAX);
    // Keys of queues without series of their own share no limit: the highest represents them all.
    highest(out, shown, &KEY_SLOTS_HELD_MAX, slots.keys.iter().map(|key| (&*key.queue, key.held_max)));
    highest(out, shown, &KEY_SLOTS_LIMIT, slots.keys.iter().map(|key| (&*key.queue, most(key.most))));
    gauge(out, shown, &KEYS_SATURATED, slots.keys.iter().map(|key| (&*key.queue, key.saturated)));
    gauge(out, shown, &RETRY_SLOTS_HELD, slots.retries.iter().map(|slots| (&*slots.queue, slots.held)));
    gauge(
        out,
        shown,
        &RETRY_SLOTS_LIMIT,
        slots.retries.iter().map(|slots| (&*slots.queue, most(slots.most))),
    );
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    for (metric, of) in [
        (
            &EXECUTOR_SLOTS_HELD,
            &(|slots: &ExecutorSlots| count(slots.held)) as &dyn Fn(&ExecutorSlots) -> u64,
        ),
        (&EXECUTOR_SLOTS_LIMIT, &|slots| slots.most),
        (&EXECUTORS_SATURATED, &|slots| count(slots.saturated)),
    ] {
        out.begin(metric);
        for executor in &slots.executors {
            out.sample(metric, &[executor.namespace.as_str()], of(executor));
        }
    }
}

/// The engine bounds them.
pub(super) fn shared_slots(out: &mut Exposition, slots: &[SharedSlots]) {
    let labels = |slots: &'_ SharedSlots| match &slots.namespace {
        Some(namespace) => ("namespace", namespace.as_str().to_owned()),
        None => ("everything", String::new()),
    };
    let table: [(&'static Metric, SharedCount); 2] = [
        (&SHARED_SLOTS_HELD, |slots| u64::try_from(slots.held).unwrap_or(u64::MAX)),
        (&SHARED_SLOTS_LIMIT, |slots| u64::from(slots.most)),
    ];
    for (metric, of) in table {
        out.begin(metric);
        for slot in slots {
            let (scope, namespace) = labels(slot);
            out.sample(metric, &[scope, &namespace], of(slot));
        }
    }
}

/// The engine bounds them.
pub(super) fn shares(out: &mut Exposition, shares: &[NamespaceShare]) {
    out.begin(&SHARE_SLOTS);
    for share in shares {
        if let Some(slots) = share.slots {
            out.sample(&SHARE_SLOTS, &[share.namespace.as_str()], slots);
        }
    }
    out.begin(&SHARE_SLOTS_HELD);
    for share in shares.iter().filter(|share| share.slots.is_some()) {
        out.sample(&SHARE_SLOTS_HELD, &[share.namespace.as_str()], share.held);
    }
    out.begin(&SHARE_STARTS);
    for share in shares {
        if let Some(rate) = share.starts {
            let us = u64::from(rate.limit).saturating_mul(1_000_000_000);
            let per_second = us / rate.period_ms.max(1).unsigned_abs();
            out.sample(&SHARE_STARTS, &[share.namespace.as_str()], seconds(per_second));
        }
    }
}

fn gauge<'a>(
    out: &mut Exposition,
    shown: &ShownQueues<'a>,
    metric: &'static Metric,
    numbers: impl Iterator<Item = (&'a QueueKey, usize)>,
) {
    joined(out, shown, metric, numbers, |sum, number| sum + number);
}

fn highest<'a>(
    out: &mut Exposition,
    shown: &ShownQueues<'a>,
    metric: &'static Metric,
    numbers: impl Iterator<Item = (&'a QueueKey, usize)>,
) {
    joined(out, shown, metric, numbers, usize::max);
}

/// The sum over the queues without their own series.
fn joined<'a>(
    out: &mut Exposition,
    shown: &ShownQueues<'a>,
    metric: &'static Metric,
    numbers: impl Iterator<Item = (&'a QueueKey, usize)>,
    join: fn(usize, usize) -> usize,
) {
    let mut joined: BTreeMap<Label<'_>, usize> = BTreeMap::new();
    for (queue, number) in numbers {
        let joined = joined.entry(shown.label(queue)).or_default();
        *joined = join(*joined, number);
    }
    out.begin(metric);
    for ((namespace, queue), number) in joined {
        out.sample(metric, &[namespace, queue], number);
    }
}

/// The age of the oldest waiting or overdue task of each queue.
pub(super) fn oldest<'a>(
    out: &mut Exposition,
    shown: &ShownQueues<'a>,
    metric: &'static Metric,
    oldest: &'a [(QueueKey, Millis)],
    now: Millis,
) {
    let mut longest: BTreeMap<Label<'_>, u64> = BTreeMap::new();
    for (queue, since) in oldest {
        let waited_us = now.since(*since).max(0).unsigned_abs() * 1_000;
        let longest = longest.entry(shown.label(queue)).or_default();
        *longest = waited_us.max(*longest);
    }
    out.begin(metric);
    for ((namespace, queue), us) in longest {
        out.sample(metric, &[namespace, queue], seconds(us));
    }
}

pub(super) fn paused<'a>(out: &mut Exposition, shown: &ShownQueues<'a>, paused: &'a [QueueKey]) {
    let labels: BTreeSet<Label<'_>> = paused.iter().map(|queue| shown.label(queue)).collect();
    out.begin(&QUEUE_PAUSED);
    for (namespace, queue) in labels {
        out.sample(&QUEUE_PAUSED, &[namespace, queue], true);
    }
}

pub(super) fn counters<'a>(out: &mut Exposition, shown: &ShownQueues<'a>, numbers: &'a [QueueNumbers]) {
    let sums = |of: Count| {
        let mut sums: BTreeMap<Label<'a>, u64> = BTreeMap::new();
        for numbers in numbers {
            *sums.entry(shown.label(&numbers.queue)).or_default() += of(numbers);
        }
        sums
    };
    let table: [(&'static Metric, Count); 10] = [
        (&TASKS_INSERTED, |numbers| numbers.inserted),
        (&TASKS_FIRED, |numbers| numbers.fired),
        (&TASKS_EARLY, |numbers| numbers.early),
        (&TASKS_DISPATCHED, |numbers| numbers.dispatched),
        (&TASKS_RETRIED, |numbers| numbers.retried),
        (&TASKS_DEAD, |numbers| numbers.dead),
        (&TASKS_CANCELLED, |numbers| numbers.cancelled),
        (&TASKS_OVER_BUDGET, |numbers| numbers.over_budget),
        (&TASKS_BLOCKED, |numbers| numbers.blocked),
        (&TASKS_THROTTLED, |numbers| numbers.throttled),
    ];
    for (metric, of) in table {
        out.begin(metric);
        for ((namespace, queue), count) in sums(of) {
            out.sample(metric, &[namespace, queue], count);
        }
    }
}

pub(super) fn lateness<'a>(out: &mut Exposition, shown: &ShownQueues<'a>, numbers: &'a [QueueNumbers]) {
    let mut sums: BTreeMap<Label<'_>, (Vec<u64>, u64)> = BTreeMap::new();
    for numbers in numbers {
        let none = || (vec![0; LATENESS_BOUNDS_MS.len() + 1], 0);
        let (counts, sum_ms) = sums.entry(shown.label(&numbers.queue)).or_insert_with(none);
        counts.iter_mut().zip(&numbers.lateness).for_each(|(count, bucket)| *count += bucket.tasks);
        *sum_ms += numbers.lateness_sum_ms;
    }
    out.begin(&LATENESS);
    for ((namespace, queue), (counts, sum_ms)) in sums {
        let bounds_us = LATENESS_BOUNDS_MS.iter().map(|ms| ms.unsigned_abs() * 1_000);
        let buckets = Buckets::new(bounds_us, &counts, sum_ms.saturating_mul(1_000));
        out.histogram(&LATENESS, &[namespace, queue], buckets);
    }
}

pub(super) fn outcomes<'a>(out: &mut Exposition, shown: &ShownQueues<'a>, numbers: &'a [QueueNumbers]) {
    let mut sums: BTreeMap<Label<'a>, [u64; AttemptEnd::ALL.len()]> = BTreeMap::new();
    let mut processing: BTreeMap<Label<'a>, &Processing> = BTreeMap::new();
    for numbers in numbers.iter().filter(|numbers| numbers.outcomes.counts.iter().any(|count| *count > 0)) {
        let counts = sums.entry(shown.label(&numbers.queue)).or_default();
        counts.iter_mut().zip(numbers.outcomes.counts).for_each(|(sum, more)| *sum += more);
        let label =
            if numbers.outcomes.shares_histogram { (OTHER, OTHER) } else { shown.label(&numbers.queue) };
        processing.insert(label, &numbers.outcomes.processing);
    }
    out.begin(&OUTCOMES);
    for ((namespace, queue), counts) in sums {
        for (ended, count) in AttemptEnd::ALL.into_iter().zip(counts) {
            out.sample(&OUTCOMES, &[namespace, queue, ended.word()], count);
        }
    }
    out.begin(&PROCESSING);
    for ((namespace, queue), processing) in processing {
        out.processing(&PROCESSING, &[namespace, queue], processing.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::exposition::Format;
    use punctual_contract::store::Tally;
    use punctual_domain::{name::Name, state::State};

    #[test]
    fn queues_beyond_the_bound_are_counted_together() {
        let tally = |nth: usize| Tally {
            queue: QueueKey {
                namespace: Name::default_namespace(),
                queue: Name::new(&format!("q{nth:05}")).unwrap(),
            },
            state: State::Scheduled,
            tasks: 1,
        };
        let books =
            Books { tallies: (0..QUEUES_REPORTED_SEPARATELY + 7).map(tally).collect(), ..Books::default() };
        let mut out = Exposition::default();
        states(&mut out, &ShownQueues::of(&[], books.tallies.iter().map(|tally| &tally.queue)), &books);
        let text = out.write(Format::Prometheus).unwrap();
        assert_eq!(text.lines().count(), 2 + QUEUES_REPORTED_SEPARATELY + 1);
        let other = "punctual_tasks{namespace=\"(other)\",queue=\"(other)\",state=\"scheduled\"} 7";
        assert!(text.lines().any(|line| line == other), "{text}");
    }
}
