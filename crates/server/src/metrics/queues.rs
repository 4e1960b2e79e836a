//! Numbers by queue, with a bound on the queues that are told apart.

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
    Depth, Ended, ExecutorSlots, LATENESS_BOUNDS_MS, ManySlots, NamespaceShare, Processing,
    QUEUES_TOLD_APART, QueueNumbers, SharedSlots, Slots,
};
use std::collections::{BTreeMap, BTreeSet};

/// No queue has brackets in its name.
const OTHER: &str = "(other)";

/// Those that the engine tells apart; if they are fewer than may be shown, the first by name of those that any other source
/// knows.
#[derive(Debug)]
pub(super) struct Shown<'a>(BTreeSet<&'a QueueKey>);

type Label<'a> = (&'a str, &'a str);
type Count = fn(&QueueNumbers) -> u64;
type SharedCount = fn(&SharedSlots) -> u64;

impl<'a> Shown<'a> {
    pub(super) fn of(numbers: &'a [QueueNumbers], queues: impl Iterator<Item = &'a QueueKey>) -> Self {
        let told_apart = numbers.iter().filter(|it| !it.outcomes.shares_histogram);
        let mut shown: BTreeSet<&QueueKey> = told_apart.map(|it| &*it.queue).collect();
        let others: BTreeSet<&QueueKey> = queues.filter(|it| !shown.contains(it)).collect();
        let room = QUEUES_TOLD_APART.saturating_sub(shown.len());
        shown.extend(others.into_iter().take(room));
        Self(shown)
    }

    fn label(&self, queue: &'a QueueKey) -> Label<'a> {
        if self.0.contains(queue) { (queue.namespace.as_str(), queue.queue.as_str()) } else { (OTHER, OTHER) }
    }
}

pub(super) fn states<'a>(out: &mut Exposition, shown: &Shown<'a>, books: &'a Books) {
    let mut sums: BTreeMap<(Label<'_>, &str), i64> = BTreeMap::new();
    for it in &books.standing {
        *sums.entry((shown.label(&it.queue), it.state.word())).or_default() += it.tasks;
    }
    out.begin(&TASKS);
    for (((namespace, queue), state), tasks) in sums {
        out.sample(&TASKS, &[namespace, queue, state], tasks);
    }
}

pub(super) fn ready<'a>(out: &mut Exposition, shown: &Shown<'a>, depth: &'a Depth) {
    for (metric, tasks) in [(&TASKS_READY, &depth.ready), (&TASKS_PARKED, &depth.parked)] {
        let tasks = tasks.iter().map(|(queue, tasks)| (queue.as_ref(), *tasks));
        gauge(out, shown, metric, tasks);
    }
}

pub(super) fn slots<'a>(out: &mut Exposition, shown: &Shown<'a>, slots: &'a [Slots]) {
    gauge(out, shown, &SLOTS_HELD, slots.iter().map(|it| (it.queue.as_ref(), it.held)));
    let most = |it: &Slots| usize::try_from(it.most).unwrap_or(usize::MAX);
    gauge(out, shown, &SLOTS_LIMIT, slots.iter().map(|it| (it.queue.as_ref(), most(it))));
}

pub(super) fn many_slots<'a>(out: &mut Exposition, shown: &Shown<'a>, slots: &'a ManySlots) {
    let most = |it: u32| usize::try_from(it).unwrap_or(usize::MAX);
    // Keys of queues that are not told apart share no limit: the highest stands for them all.
    highest(out, shown, &KEY_SLOTS_HELD_MAX, slots.keys.iter().map(|it| (&*it.queue, it.held_max)));
    highest(out, shown, &KEY_SLOTS_LIMIT, slots.keys.iter().map(|it| (&*it.queue, most(it.most))));
    gauge(out, shown, &KEYS_SATURATED, slots.keys.iter().map(|it| (&*it.queue, it.saturated)));
    gauge(out, shown, &RETRY_SLOTS_HELD, slots.retries.iter().map(|it| (&*it.queue, it.held)));
    gauge(out, shown, &RETRY_SLOTS_LIMIT, slots.retries.iter().map(|it| (&*it.queue, most(it.most))));
    let count = |it: usize| u64::try_from(it).unwrap_or(u64::MAX);
    for (metric, of) in [
        (&EXECUTOR_SLOTS_HELD, &(|it: &ExecutorSlots| count(it.held)) as &dyn Fn(&ExecutorSlots) -> u64),
        (&EXECUTOR_SLOTS_LIMIT, &|it| it.most),
        (&EXECUTORS_SATURATED, &|it| count(it.saturated)),
    ] {
        out.begin(metric);
        for it in &slots.executors {
            out.sample(metric, &[it.namespace.as_str()], of(it));
        }
    }
}

/// The engine bounds them.
pub(super) fn shared_slots(out: &mut Exposition, slots: &[SharedSlots]) {
    let labels = |it: &'_ SharedSlots| match &it.namespace {
        Some(namespace) => ("namespace", namespace.as_str().to_owned()),
        None => ("everything", String::new()),
    };
    let table: [(&'static Metric, SharedCount); 2] = [
        (&SHARED_SLOTS_HELD, |it| u64::try_from(it.held).unwrap_or(u64::MAX)),
        (&SHARED_SLOTS_LIMIT, |it| u64::from(it.most)),
    ];
    for (metric, of) in table {
        out.begin(metric);
        for it in slots {
            let (scope, namespace) = labels(it);
            out.sample(metric, &[scope, &namespace], of(it));
        }
    }
}

/// The engine bounds them.
pub(super) fn shares(out: &mut Exposition, shares: &[NamespaceShare]) {
    out.begin(&SHARE_SLOTS);
    for it in shares {
        if let Some(slots) = it.slots {
            out.sample(&SHARE_SLOTS, &[it.namespace.as_str()], slots);
        }
    }
    out.begin(&SHARE_SLOTS_HELD);
    for it in shares.iter().filter(|it| it.slots.is_some()) {
        out.sample(&SHARE_SLOTS_HELD, &[it.namespace.as_str()], it.held);
    }
    out.begin(&SHARE_STARTS);
    for it in shares {
        if let Some(rate) = it.starts {
            let us = u64::from(rate.limit).saturating_mul(1_000_000_000);
            let per_second = us / rate.period_ms.max(1).unsigned_abs();
            out.sample(&SHARE_STARTS, &[it.namespace.as_str()], seconds(per_second));
        }
    }
}

fn gauge<'a>(
    out: &mut Exposition,
    shown: &Shown<'a>,
    metric: &'static Metric,
    numbers: impl Iterator<Item = (&'a QueueKey, usize)>,
) {
    joined(out, shown, metric, numbers, |sum, it| sum + it);
}

fn highest<'a>(
    out: &mut Exposition,
    shown: &Shown<'a>,
    metric: &'static Metric,
    numbers: impl Iterator<Item = (&'a QueueKey, usize)>,
) {
    joined(out, shown, metric, numbers, usize::max);
}

/// Of queues that are not told apart, all together.
fn joined<'a>(
    out: &mut Exposition,
    shown: &Shown<'a>,
    metric: &'static Metric,
    numbers: impl Iterator<Item = (&'a QueueKey, usize)>,
    join: fn(usize, usize) -> usize,
) {
    let mut joined: BTreeMap<Label<'_>, usize> = BTreeMap::new();
    for (queue, number) in numbers {
        let it = joined.entry(shown.label(queue)).or_default();
        *it = join(*it, number);
    }
    out.begin(metric);
    for ((namespace, queue), number) in joined {
        out.sample(metric, &[namespace, queue], number);
    }
}

/// How long ago the oldest of each queue waits, or was due.
pub(super) fn oldest<'a>(
    out: &mut Exposition,
    shown: &Shown<'a>,
    metric: &'static Metric,
    oldest: &'a [(QueueKey, Millis)],
    now: Millis,
) {
    let mut longest: BTreeMap<Label<'_>, u64> = BTreeMap::new();
    for (queue, since) in oldest {
        let waited_us = now.since(*since).max(0).unsigned_abs() * 1_000;
        let it = longest.entry(shown.label(queue)).or_default();
        *it = waited_us.max(*it);
    }
    out.begin(metric);
    for ((namespace, queue), us) in longest {
        out.sample(metric, &[namespace, queue], seconds(us));
    }
}

pub(super) fn paused<'a>(out: &mut Exposition, shown: &Shown<'a>, paused: &'a [QueueKey]) {
    let labels: BTreeSet<Label<'_>> = paused.iter().map(|it| shown.label(it)).collect();
    out.begin(&QUEUE_PAUSED);
    for (namespace, queue) in labels {
        out.sample(&QUEUE_PAUSED, &[namespace, queue], true);
    }
}

pub(super) fn counters<'a>(out: &mut Exposition, shown: &Shown<'a>, numbers: &'a [QueueNumbers]) {
    let sums = |of: Count| {
        let mut sums: BTreeMap<Label<'a>, u64> = BTreeMap::new();
        for it in numbers {
            *sums.entry(shown.label(&it.queue)).or_default() += of(it);
        }
        sums
    };
    let table: [(&'static Metric, Count); 10] = [
        (&TASKS_INSERTED, |it| it.inserted),
        (&TASKS_FIRED, |it| it.fired),
        (&TASKS_EARLY, |it| it.early),
        (&TASKS_DISPATCHED, |it| it.dispatched),
        (&TASKS_RETRIED, |it| it.retried),
        (&TASKS_DEAD, |it| it.dead),
        (&TASKS_CANCELLED, |it| it.cancelled),
        (&TASKS_OVER_BUDGET, |it| it.over_budget),
        (&TASKS_BLOCKED, |it| it.blocked),
        (&TASKS_THROTTLED, |it| it.throttled),
    ];
    for (metric, of) in table {
        out.begin(metric);
        for ((namespace, queue), count) in sums(of) {
            out.sample(metric, &[namespace, queue], count);
        }
    }
}

pub(super) fn lateness<'a>(out: &mut Exposition, shown: &Shown<'a>, numbers: &'a [QueueNumbers]) {
    let mut sums: BTreeMap<Label<'_>, (Vec<u64>, u64)> = BTreeMap::new();
    for it in numbers {
        let none = || (vec![0; LATENESS_BOUNDS_MS.len() + 1], 0);
        let (counts, sum_ms) = sums.entry(shown.label(&it.queue)).or_insert_with(none);
        counts.iter_mut().zip(&it.lateness).for_each(|(count, bucket)| *count += bucket.tasks);
        *sum_ms += it.lateness_sum_ms;
    }
    out.begin(&LATENESS);
    for ((namespace, queue), (counts, sum_ms)) in sums {
        let bounds_us = LATENESS_BOUNDS_MS.iter().map(|ms| ms.unsigned_abs() * 1_000);
        let buckets = Buckets::new(bounds_us, &counts, sum_ms.saturating_mul(1_000));
        out.histogram(&LATENESS, &[namespace, queue], buckets);
    }
}

pub(super) fn outcomes<'a>(out: &mut Exposition, shown: &Shown<'a>, numbers: &'a [QueueNumbers]) {
    let mut sums: BTreeMap<Label<'a>, [u64; Ended::ALL.len()]> = BTreeMap::new();
    let mut processing: BTreeMap<Label<'a>, &Processing> = BTreeMap::new();
    for it in numbers.iter().filter(|it| it.outcomes.counts.iter().any(|count| *count > 0)) {
        let counts = sums.entry(shown.label(&it.queue)).or_default();
        counts.iter_mut().zip(it.outcomes.counts).for_each(|(sum, more)| *sum += more);
        let label = if it.outcomes.shares_histogram { (OTHER, OTHER) } else { shown.label(&it.queue) };
        processing.insert(label, &it.outcomes.processing);
    }
    out.begin(&OUTCOMES);
    for ((namespace, queue), counts) in sums {
        for (ended, count) in Ended::ALL.into_iter().zip(counts) {
            out.sample(&OUTCOMES, &[namespace, queue, ended.word()], count);
        }
    }
    out.begin(&PROCESSING);
    for ((namespace, queue), it) in processing {
        out.processing(&PROCESSING, &[namespace, queue], it.clone());
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
        let books = Books { standing: (0..QUEUES_TOLD_APART + 7).map(tally).collect(), ..Books::default() };
        let mut out = Exposition::default();
        states(&mut out, &Shown::of(&[], books.standing.iter().map(|it| &it.queue)), &books);
        let text = out.write(Format::Prometheus).unwrap();
        assert_eq!(text.lines().count(), 2 + QUEUES_TOLD_APART + 1);
        let other = "punctual_tasks{namespace=\"(other)\",queue=\"(other)\",state=\"scheduled\"} 7";
        assert!(text.lines().any(|it| it == other), "{text}");
    }
}
