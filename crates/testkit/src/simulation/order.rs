//! Checks which task is first when an executor requests one. At every such call of a sound world:
//!
//! - Within one level no task is handed over while an older one of that level waits (by due time, then id), and none
//!   while a newer version of it waits: the newest version is handed over at the place of the oldest.
//! - The chooser selects the level: four in five are from the most urgent waiting one. A single draw proves
//!   nothing, the share over many seeds does (`ReadyOrder`). Counted only if all fired tasks are known to
//!   wait.
//! - If nothing is limited and a task waits, the executor gets one.
//!
//! A task waits if it has fired, no executor and no engine has its lease, no limit holds it back, each engine
//! has completed a run since, and it is at the engine that is asked: the order is exact within one engine. No
//! statement is made about a task of which another version has fired that is not known to wait, or that the
//! store refuses. The engine's own preleased tasks also wait if one of them is handed over: they overtake
//! nothing, and for a moment the line may overtake them. The store says which waiting tasks can be leased;
//! engines only say which have fired.

use super::{
    limits::{MOST_OF_A_KEY, MOST_RETRIES},
    setup::{Faults, Hands},
    world::World,
};
use punctual_contract::store::{Assignment, Query};
use punctual_domain::{
    chooser::Level,
    settings::Retries,
    state::State,
    task::{Lease, Priority, Task},
    time::Millis,
};
use punctual_engine::Engine;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// More than there ever is.
const ALL: usize = 10_000;

/// Hand-overs of one task at which others waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadyOrder {
    /// The number of choices at which other levels waited.
    pub choices: usize,
    /// Of these, the number of choices of the most urgent level.
    pub to_most_urgent: usize,
    /// The number of choices at which others of the same level waited.
    pub by_age: usize,
    /// The number of choices at which other versions of the task waited.
    pub by_version: usize,
    /// The number of choices of preleased tasks.
    pub leased_ahead: usize,
}

impl ReadyOrder {
    pub fn add(&mut self, other: Self) {
        self.choices += other.choices;
        self.to_most_urgent += other.to_most_urgent;
        self.by_age += other.by_age;
        self.by_version += other.by_version;
        self.leased_ahead += other.leased_ahead;
    }

    /// The counts that this many seeds must show, or their result proves nothing.
    pub const fn wanted(seeds: usize, is_limited: bool) -> Self {
        // Where something is limited nothing is leased ahead, and what else may go is rarely known.
        let (choices, leased_ahead) = if is_limited { (seeds / 10, 0) } else { (2 * seeds, seeds / 10) };
        Self { choices, to_most_urgent: 0, by_age: 3 * seeds, by_version: seeds / 10, leased_ahead }
    }

    pub const fn says_as_much_as(&self, wanted: Self) -> bool {
        self.choices >= wanted.choices
            && self.by_age >= wanted.by_age
            && self.by_version >= wanted.by_version
            && self.leased_ahead >= wanted.leased_ahead
    }
}

/// The waiting tasks before an executor asks.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    ready: Vec<Ready>,
    leased_ahead: Vec<Ready>,
    /// Tasks of which another version has fired, and may go or not.
    others: BTreeSet<i64>,
}

/// A task that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    pub level: Level,
    pub due_at: Millis,
    pub id: i64,
    pub task_id: i64,
    pub task_version: i64,
    pub is_retry: bool,
    pub key: Option<String>,
}

struct Fired {
    task: Task,
    at: Millis,
    /// It may start until then.
    deadline_at: Millis,
}

/// The level of a task. No queue of a world moves retries to another level.
fn level(priority: Priority, attempts: u32) -> Level {
    Level::of(priority, attempts, Retries::default())
}

impl Ready {
    /// The task before the attempt that a lease begins.
    fn of_task(task: &Task, attempts: u32) -> Self {
        Self {
            level: level(task.ask.priority, attempts),
            due_at: task.due_at,
            id: task.place.id,
            task_id: task.task_id(),
            task_version: task.ask.task_version,
            is_retry: attempts > 0,
            key: task.ask.demands.concurrency_key.clone(),
        }
    }

    fn of_lease(lease: &Assignment) -> Self {
        let attempts = lease.attempt.saturating_sub(1);
        Self {
            level: level(lease.priority, attempts),
            due_at: lease.due_at,
            id: lease.place.id,
            task_id: lease.task_id,
            task_version: lease.task_version,
            is_retry: attempts > 0,
            key: None,
        }
    }

    fn place(&self) -> (Level, Millis, i64) {
        (self.level, self.due_at, self.id)
    }
}

impl World {
    /// The waiting tasks, before an executor asks an engine for `max`. `None` if no statement is possible.
    pub(super) async fn waiting(&self, engine: &Engine, max: usize) -> Option<Waiting> {
        let may_be_said = max == 1
            && self.setup.faults == Faults::None
            && self.setup.hands == Hands::Pull
            && self.is_sound();
        let offered_at = self.turns.0?;
        if !may_be_said || (self.hot_is_away && self.is_shared()) {
            return None;
        }
        let (mut fired, refused) = self.fired().await?;
        // Other engines pass their tasks when none wait here. Some of those are of this engine's partitions.
        let ids = |node: &Engine| node.served().into_iter().map(|(id, ..)| id).collect::<BTreeSet<i64>>();
        let (here, elsewhere): (Vec<_>, Vec<_>) =
            self.nodes.iter().map(|node| &node.engine).partition(|node| node.name() == engine.name());
        let [here, elsewhere] =
            [here, elsewhere].map(|nodes| nodes.into_iter().flat_map(ids).collect::<BTreeSet<i64>>());
        fired.retain(|fired| {
            let (id, partition) = (fired.task.place.id, fired.task.place.partition);
            here.contains(&id) || (engine.owns(partition) && !elsewhere.contains(&id))
        });
        let now = self.now();
        let waits = |fired: &&Fired| fired.at <= offered_at && fired.deadline_at > now;
        let ready = fired.iter().filter(waits).map(|fired| Ready::of_task(&fired.task, fired.task.attempt));
        let mut ready: Vec<Ready> = ready.collect();
        let in_flight = self.truth.in_flight(None, ALL).await.ok()?.0;
        ready.sort_by_key(Ready::place);
        if self.is_limited() {
            leave_out_limited(&mut ready, &in_flight);
        }
        let name = Lease::ahead(engine.name());
        // The store learns only later that an executor has one.
        let is_handed_over = |task: &Task| {
            let mut known = self.held.iter().chain(&self.given_up);
            known.any(|lease| lease.place.id == task.place.id && lease.fence == task.fence)
        };
        let is_ahead = |task: &&Task| {
            let is_in_its_name = task.lease.as_ref().is_some_and(|lease| lease.executor == name);
            task.due_at <= offered_at && is_in_its_name && !is_handed_over(task)
        };
        let leased_ahead = in_flight.iter().filter(is_ahead);
        let leased_ahead = leased_ahead.map(|task| Ready::of_task(task, task.attempt - 1)).collect();
        let is_ready = |task: &Task| ready.iter().any(|other| other.id == task.place.id);
        let others = fired.iter().map(|fired| &fired.task).filter(|task| !is_ready(task)).map(Task::task_id);
        let others = others.chain(refused).collect();
        Some(Waiting { ready, leased_ahead, others })
    }

    /// Fired tasks without an executor, and tasks with a fired version that the store refuses.
    async fn fired(&self) -> Option<(Vec<Fired>, Vec<i64>)> {
        let known = self.nodes.iter().flat_map(|node| node.engine.fired());
        let mut known: HashMap<i64, (i64, Millis)> =
            known.map(|(place, fence, at)| (place.id, (fence, at))).collect();
        let page = self.truth.list(&Query { limit: ALL, ..Query::default() }).await.ok()?;
        let (mut fired, mut refused) = (Vec::new(), Vec::new());
        let served = self.nodes.iter().flat_map(|node| node.engine.served());
        let mut standing: HashMap<i64, (i64, i64)> =
            served.map(|(id, fence, task_id)| (id, (fence, task_id))).collect();
        for task in page.tasks {
            let here = known.remove(&task.place.id);
            let copy = standing.remove(&task.place.id);
            // Left in a line by a hand-over at another engine: the store refuses it.
            let is_stale = |(fence, _): &(i64, i64)| *fence != task.fence || !task.state.is_waiting();
            refused.extend(copy.filter(is_stale).map(|(_, task_id)| task_id));
            let at = here.filter(|(fence, _)| *fence == task.fence).map(|(_, at)| at);
            // Returned tasks fire again in the next run.
            let waits = || self.nodes.iter().any(|node| node.engine.will_fire(task.place.id, task.fence));
            let is_offered = task.state == State::Ready && !waits();
            match at.or_else(|| is_offered.then_some(task.due_at)) {
                Some(at) if task.state.is_waiting() => {
                    let deadline_at = deadline_of(&task);
                    fired.push(Fired { task, at, deadline_at });
                }
                // A task that an executor has is not given again.
                _ if here.is_some() && task.state.is_waiting() => refused.push(task.task_id()),
                _ => {}
            }
        }
        refused.extend(standing.into_values().map(|(_, task_id)| task_id));
        Some((fired, refused))
    }

    /// Checks that the given task is first.
    pub(super) fn check_order(&mut self, waiting: Waiting, given: &[Assignment]) -> Result<(), String> {
        let Waiting { ready, leased_ahead, others } = waiting;
        let Some(given) = given.first() else {
            let may_be_nothing = ready.is_empty() || self.is_limited();
            return if may_be_nothing {
                Ok(())
            } else {
                Err(format!("order: nothing was given of {ready:?}"))
            };
        };
        let is_ahead = leased_ahead.iter().any(|other| other.id == given.place.id);
        let given = Ready::of_lease(given);
        let mut all = ready;
        if is_ahead {
            self.order.leased_ahead += 1;
            all.extend(leased_ahead);
        }
        all.retain(|other| other.id != given.id);
        all.push(given.clone());
        if others.contains(&given.task_id) {
            // It may go in the place of the other version.
            return Ok(());
        }
        let seen = judge(&given, &all)?;
        self.order.add(if others.is_empty() {
            seen
        } else {
            ReadyOrder { choices: 0, to_most_urgent: 0, ..seen }
        });
        Ok(())
    }
}

/// It may start until then.
fn deadline_of(task: &Task) -> Millis {
    task.ask.deadline_ms.map_or(Millis::MAX, |deadline_ms| task.ask.execute_at.plus(deadline_ms))
}

/// Removes the tasks that a key or the retries of the queue delay; and of each key, and of the retries, all but the
/// first: those that may follow wait for it. `ready` is in order.
fn leave_out_limited(ready: &mut Vec<Ready>, in_flight: &[Task]) {
    let key_of = |task: &Task| task.ask.demands.concurrency_key.clone();
    let mut keys = BTreeMap::<String, u32>::new();
    in_flight.iter().filter_map(key_of).for_each(|key| *keys.entry(key).or_default() += 1);
    let retries = in_flight.iter().filter(|task| task.attempt > 1).count();
    let mut may_retry = u32::try_from(retries).is_ok_and(|retries| retries < MOST_RETRIES);
    let mut blocked: BTreeSet<String> =
        keys.into_iter().filter(|held| held.1 >= MOST_OF_A_KEY).map(|held| held.0).collect();
    ready.retain(|task| {
        let is_free = task.key.clone().is_none_or(|key| blocked.insert(key));
        let may_go = is_free && (!task.is_retry || may_retry);
        may_retry &= !task.is_retry;
        may_go
    });
}

/// `all`: what waited, with the one that was given.
///
/// # Errors
/// It passes over another.
pub fn judge(given: &Ready, all: &[Ready]) -> Result<ReadyOrder, String> {
    let mut heads = BTreeMap::<Level, &Ready>::new();
    for task in all {
        let head = heads.entry(task.level).or_insert(task);
        if task.place() < head.place() {
            *head = task;
        }
    }
    let of_task = |task_id: i64| all.iter().filter(move |other| other.task_id == task_id);
    let newest = |task_id| of_task(task_id).max_by_key(|other| (other.task_version, other.id));
    let is_next = |head: &&Ready| newest(head.task_id).is_some_and(|newest| newest.id == given.id);
    let levels: Vec<Level> =
        heads.iter().filter(|(_, head)| is_next(head)).map(|(level, _)| *level).collect();
    let Some(first) = levels.first() else {
        return Err(format!("order: {given:?} was given of {all:?}"));
    };
    // A version that is next in two levels says nothing of the choice.
    let is_choice = heads.len() > 1 && levels.len() == 1;
    Ok(ReadyOrder {
        choices: usize::from(is_choice),
        to_most_urgent: usize::from(is_choice && heads.keys().next() == Some(first)),
        by_age: usize::from(all.iter().any(|other| other.level == given.level && other.id != given.id)),
        by_version: usize::from(of_task(given.task_id).count() > 1),
        leased_ahead: 0,
    })
}
