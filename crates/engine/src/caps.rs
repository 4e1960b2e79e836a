//! Caps on waiting tasks, and on the bytes of their payloads: whether there is room for what somebody wants to insert. Cheap:
//! counted from the account once a second, and only where a cap is set; between two counts this engine adds what it lets in itself. What other engines
//! let in meanwhile is not seen: a cap is passed by at most what they take in a second. Decides nothing about a task that
//! is there already.

use crate::{
    control,
    core::Core,
    engine::Engine,
    identity,
    namespaces::{self, Closed},
    quota::{self, TooFast},
    settings::Known,
};
use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::{Error, store::Books};
use punctual_domain::{
    name::{Name, QueueKey},
    settings::Scope,
    state::State,
    task::{Content, NewTask, Task},
};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, timeout};

/// How old a count may be.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// How long an insert waits for a new one.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why a task is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Full {
    pub scope: Scope,
    /// As of the last count, with what was let in since.
    pub waiting: u64,
    pub max_waiting: u64,
}

/// Why a payload is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooManyBytes {
    pub scope: Scope,
    /// Of what waits, as of the last count, with what was let in since.
    pub bytes: u64,
    pub max_payload_bytes: u64,
}

/// Why an insert is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    Closed(Closed),
    TooFast(TooFast),
    Full(Full),
    TooManyBytes(TooManyBytes),
}

/// Why a task that waits may not go into another queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueRefused {
    Full(Full),
    /// It demands versions of its handler, and any subscriber of a queue that is pushed may get any message.
    Versions(String),
}

impl std::fmt::Display for QueueRefused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Full(it) => write!(f, "the queue is full: {} of {} tasks wait", it.waiting, it.max_waiting),
            Self::Versions(it) => {
                write!(f, "demands handler_versions {it:?}, and the queue is pushed over the bus")
            }
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Caps {
    counts: Mutex<Counts>,
    counting: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Counts {
    counted_at: Option<Instant>,
    /// The last look failed: a part of the store is away.
    is_old: bool,
    everything: u64,
    namespaces: HashMap<Name, u64>,
    queues: HashMap<QueueKey, u64>,
    all_bytes: u64,
    bytes: HashMap<Name, u64>,
}

/// Has not been handed over.
pub(crate) fn is_waiting(state: State) -> bool {
    state.is_pending()
}

fn bytes_of(payload: &Content) -> u64 {
    u64::try_from(payload.size()).unwrap_or(u64::MAX)
}

impl Counts {
    fn of(books: &Books) -> Self {
        let mut counts = Self { counted_at: Some(Instant::now()), ..Self::default() };
        for it in books.standing.iter().filter(|it| is_waiting(it.state)) {
            let tasks = u64::try_from(it.tasks).unwrap_or(0);
            counts.everything += tasks;
            *counts.namespaces.entry(it.queue.namespace.clone()).or_default() += tasks;
            *counts.queues.entry(it.queue.clone()).or_default() += tasks;
        }
        for it in &books.pending_bytes {
            // Below nothing it is where tasks stood before bytes were counted, until an engine has counted theirs.
            counts.add_bytes(&it.queue.namespace, u64::try_from(it.bytes).unwrap_or(0));
        }
        counts
    }

    /// The narrowest scope that has no room for so many bytes more.
    fn too_many_bytes(&self, known: &Known, namespace: &Name, more: u64) -> Option<TooManyBytes> {
        let of_namespace = known.namespaces.get(namespace).and_then(|it| it.max_payload_bytes);
        let in_namespace = self.bytes.get(namespace).copied().unwrap_or(0);
        let scopes = [
            (of_namespace, in_namespace, Scope::Namespace(namespace.clone())),
            (known.everything.max_payload_bytes, self.all_bytes, Scope::Everything),
        ];
        let full = |(max, bytes, scope): (Option<u64>, u64, Scope)| {
            let max_payload_bytes = max.filter(|max| bytes.saturating_add(more) > *max)?;
            Some(TooManyBytes { scope, bytes, max_payload_bytes })
        };
        scopes.into_iter().find_map(full)
    }

    fn add_bytes(&mut self, namespace: &Name, more: u64) {
        self.all_bytes = self.all_bytes.saturating_add(more);
        let of_namespace = self.bytes.entry(namespace.clone()).or_default();
        *of_namespace = of_namespace.saturating_add(more);
    }

    /// Keeps room for a task; or why there is none.
    fn let_in(&mut self, known: &Known, task: &NewTask) -> Option<Refused> {
        let (queue, bytes) = (&task.queue, bytes_of(&task.payload));
        let refused = self.full(known, queue).map(Refused::Full);
        let refused = refused
            .or_else(|| self.too_many_bytes(known, &queue.namespace, bytes).map(Refused::TooManyBytes));
        if refused.is_none() {
            self.add(queue);
            self.add_bytes(&queue.namespace, bytes);
        }
        refused
    }

    /// Room in the queue alone: of its namespace, and of everything, the task is one already.
    fn let_into(&mut self, known: &Known, from: &QueueKey, to: &QueueKey) -> Option<Full> {
        let waiting = self.queues.get(to).copied().unwrap_or(0);
        let max = known.queues.get(to).and_then(|it| it.max_waiting);
        if let Some(max_waiting) = max.filter(|max| waiting >= *max) {
            return Some(Full { scope: Scope::Queue(to.clone()), waiting, max_waiting });
        }
        *self.queues.entry(to.clone()).or_default() += 1;
        let left = self.queues.entry(from.clone()).or_default();
        *left = left.saturating_sub(1);
        None
    }

    /// The narrowest scope that has no room for one more.
    fn full(&self, known: &Known, queue: &QueueKey) -> Option<Full> {
        let in_queue = known.queues.get(queue).and_then(|it| it.max_waiting);
        let in_namespace = known.namespaces.get(&queue.namespace).and_then(|it| it.max_waiting);
        let of_queue = self.queues.get(queue).copied().unwrap_or(0);
        let of_namespace = self.namespaces.get(&queue.namespace).copied().unwrap_or(0);
        let scopes = [
            (in_queue, of_queue, Scope::Queue(queue.clone())),
            (in_namespace, of_namespace, Scope::Namespace(queue.namespace.clone())),
            (known.everything.max_waiting, self.everything, Scope::Everything),
        ];
        let full = |(max, waiting, scope): (Option<u64>, u64, Scope)| {
            max.filter(|max| waiting >= *max).map(|max_waiting| Full { scope, waiting, max_waiting })
        };
        scopes.into_iter().find_map(full)
    }

    fn add(&mut self, queue: &QueueKey) {
        self.everything += 1;
        *self.namespaces.entry(queue.namespace.clone()).or_default() += 1;
        *self.queues.entry(queue.clone()).or_default() += 1;
    }
}

/// While the store cannot be counted nobody waits for it: caps go by the last count, with what was let in since. Where there
/// is none yet, by what was let in: a cap that was set while a part is away keeps no task out of the others.
async fn count(core: &Arc<Core>) {
    let is_fresh = || core.caps.counts.lock().counted_at.is_some_and(|it| it.elapsed() < FRESH_FOR);
    if is_fresh() {
        return;
    }
    let is_old = core.caps.counts.lock().is_old;
    if is_old {
        let its = Arc::clone(core);
        core.detach(async move {
            if let Ok(_one_counts) = its.caps.counting.try_lock() {
                count_now(&its).await;
            }
        });
        return;
    }
    let _one_counts = core.caps.counting.lock().await;
    if !is_fresh() {
        count_now(core).await;
    }
}

async fn count_now(core: &Core) {
    let silent = || Error::did_not_happen("count what waits", "no answer");
    match timeout(PATIENCE, core.store.books()).await.unwrap_or_else(|_| Err(silent())) {
        Ok(books) => *core.caps.counts.lock() = Counts::of(&books),
        Err(error) => {
            tracing::warn!(%error, "what waits cannot be counted; caps go by the last count");
            let mut counts = core.caps.counts.lock();
            (counts.counted_at, counts.is_old) = (Some(Instant::now()), true);
        }
    }
}

/// In order: None, there is room, and it is kept for the task; and it does not come too fast.
pub(crate) async fn refused(core: &Arc<Core>, tasks: &[NewTask]) -> Result<Vec<Option<Refused>>, Error> {
    if core.options.explicit_namespaces {
        // What is not known would be taken for what there is not.
        control::loaded(core).await?;
    }
    let known = core.settings.known();
    let closed = tasks.iter().map(|it| namespaces::closed(core, &known, &it.queue.namespace));
    let mut refused: Vec<Option<Refused>> = closed.map(|it| it.map(Refused::Closed)).collect();
    quota::keep_slow(core, tasks, &mut refused);
    if !known.has_caps() {
        return Ok(refused);
    }
    count(core).await;
    {
        let mut counts = core.caps.counts.lock();
        for (task, refused) in tasks.iter().zip(&mut refused).filter(|(_, refused)| refused.is_none()) {
            *refused = counts.let_in(&known, task);
        }
    }
    for (task, refused) in tasks.iter().zip(&mut refused) {
        // What is there already is replaced, or is the answer: nothing comes to what waits.
        let (false, Some(why @ (Refused::Full(_) | Refused::TooManyBytes(_)))) =
            (task.is_anonymous(), &refused)
        else {
            continue;
        };
        let version = Some(task.task_version);
        // Where it cannot be asked, its insert says what is wrong there: the other tasks are no worse for it.
        let standing = timeout(PATIENCE, identity::standing(core, task, version, 1)).await;
        let is_refused = match standing {
            Ok(Ok(standing)) => match (standing.first(), why) {
                (None, _) => true,
                (Some(standing), Refused::TooManyBytes(_)) => grows(standing, &task.payload),
                (Some(_), _) => false,
            },
            _ => false,
        };
        if !is_refused {
            *refused = None;
        }
    }
    Ok(refused)
}

/// An insert of a task that stands makes more of what waits: it is replaced, by a longer payload or from its end.
fn grows(standing: &Task, payload: &Content) -> bool {
    let is_answer = standing.state.is_in_flight() || standing.state == State::Succeeded;
    let was = if standing.state.is_pending() { bytes_of(&standing.ask.payload) } else { 0 };
    !is_answer && bytes_of(payload) > was
}

/// Whether there is no room for another payload of a task that waits.
async fn other_payload(core: &Arc<Core>, task: &Task, payload: &Content) -> Option<TooManyBytes> {
    let known = core.settings.known();
    let more = bytes_of(payload).saturating_sub(bytes_of(&task.ask.payload));
    if more == 0 || !known.caps_bytes() || !task.state.is_pending() {
        return None;
    }
    count(core).await;
    let mut counts = core.caps.counts.lock();
    let namespace = &task.ask.queue.namespace;
    let refused = counts.too_many_bytes(&known, namespace, more);
    if refused.is_none() {
        counts.add_bytes(namespace, more);
    }
    refused
}

/// Whether a task that waits may not go into another queue of its namespace.
async fn other_queue(core: &Arc<Core>, task: &Task, queue: &Name) -> Option<QueueRefused> {
    let from = &task.ask.queue;
    if queue == &from.queue {
        return None;
    }
    let to = QueueKey { namespace: from.namespace.clone(), queue: queue.clone() };
    if let Some(versions) =
        task.ask.demands.handler_versions.clone().filter(|_| core.push_queues().contains(&to))
    {
        return Some(QueueRefused::Versions(versions));
    }
    let known = core.settings.known();
    if !known.has_caps() || !task.state.is_pending() {
        return None;
    }
    count(core).await;
    core.caps.counts.lock().let_into(&known, from, &to).map(QueueRefused::Full)
}

impl Engine {
    /// Why a task that waits may not go into another queue. What is not refused has room there until the next count.
    pub async fn queue_refused(&self, task: &Task, queue: &Name) -> Option<QueueRefused> {
        other_queue(&self.core, task, queue).await
    }

    /// Why a task that waits may not have this payload instead of its own: there is no room for it.
    pub async fn payload_refused(&self, task: &Task, payload: &Content) -> Option<TooManyBytes> {
        other_payload(&self.core, task, payload).await
    }

    /// Which of these tasks there is no room for, or come too fast, in order. What is not refused has room until the next
    /// count.
    ///
    /// # Errors
    /// A failing store, where a cap is set.
    pub async fn refused(&self, tasks: &[NewTask]) -> Result<Vec<Option<Refused>>, crate::Error> {
        Ok(refused(&self.core, tasks).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_domain::{
        settings::{QueueSettings, ScopeSettings},
        time::Millis,
    };

    #[test]
    fn the_narrowest_full_scope_is_named_and_what_is_let_in_counts() {
        let name = |it: &str| Name::new(it).unwrap();
        let queue = |it: &str| QueueKey { namespace: name("eu"), queue: name(it) };
        let capped = QueueSettings { max_waiting: Some(2), ..QueueSettings::default() };
        let mut known = Known {
            everything: ScopeSettings { max_waiting: Some(4), ..ScopeSettings::default() },
            ..Known::default()
        };
        known.queues.insert(queue("mail"), Arc::new(capped));
        let mut counts = Counts::default();
        let mut let_in = |it: &str| {
            let full = counts.full(&known, &queue(it));
            if full.is_none() {
                counts.add(&queue(it));
            }
            full.map(|it| (it.scope, it.waiting))
        };
        assert_eq!((let_in("mail"), let_in("mail")), (None, None));
        assert_eq!(let_in("mail"), Some((Scope::Queue(queue("mail")), 2)));
        assert_eq!((let_in("sms"), let_in("sms")), (None, None));
        assert_eq!(let_in("sms"), Some((Scope::Everything, 4)));
    }

    #[test]
    fn a_task_that_changes_its_queue_needs_room_there_alone_and_leaves_room_behind() {
        let name = |it: &str| Name::new(it).unwrap();
        let queue = |it: &str| QueueKey { namespace: name("eu"), queue: name(it) };
        let capped = |max| Arc::new(QueueSettings { max_waiting: Some(max), ..QueueSettings::default() });
        let mut known = Known {
            everything: ScopeSettings { max_waiting: Some(3), ..ScopeSettings::default() },
            ..Known::default()
        };
        known.queues.insert(queue("mail"), capped(3));
        known.queues.insert(queue("sms"), capped(1));
        let mut counts = Counts::default();
        (0..3).for_each(|_| counts.add(&queue("mail")));
        assert_eq!(
            counts.let_into(&known, &queue("mail"), &queue("sms")),
            None,
            "everything is full, and stays so"
        );
        let full = counts.let_into(&known, &queue("mail"), &queue("sms")).unwrap();
        assert_eq!((full.scope, full.waiting, full.max_waiting), (Scope::Queue(queue("sms")), 1, 1));
        assert_eq!((counts.queues[&queue("mail")], counts.everything), (2, 3));
    }

    #[test]
    fn payloads_are_let_in_up_to_the_bytes_that_are_allowed_and_short_ones_where_long_ones_are_not() {
        let name = |it: &str| Name::new(it).unwrap();
        let capped = |max| ScopeSettings { max_payload_bytes: Some(max), ..ScopeSettings::default() };
        let mut known = Known { everything: capped(100), ..Known::default() };
        known.namespaces.insert(name("eu"), capped(10));
        let mut counts = Counts::default();
        let mut let_in = |namespace: &str, bytes: usize| {
            let queue = QueueKey { namespace: name(namespace), queue: name("mail") };
            let payload = Content::binary(vec![0; bytes]);
            let task = NewTask { payload, ..NewTask::new(queue, name("send"), Millis(0)) };
            match counts.let_in(&known, &task) {
                None => None,
                Some(Refused::TooManyBytes(it)) => Some((it.scope, it.bytes)),
                Some(other) => panic!("{other:?}"),
            }
        };
        assert_eq!((let_in("eu", 4), let_in("eu", 5)), (None, None));
        assert_eq!(let_in("eu", 2), Some((Scope::Namespace(name("eu")), 9)));
        assert_eq!((let_in("eu", 1), let_in("eu", 0)), (None, None), "exactly full, and nothing more");
        assert_eq!((let_in("us", 90), let_in("us", 1)), (None, Some((Scope::Everything, 100))));
    }
}
