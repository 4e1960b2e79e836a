//! The settings of a queue, of a namespace, and of the installation. Unset ones have the engine's defaults.
//! Stored as JSON: a field is never renamed, and an unknown one is refused, not ignored.

use crate::{
    name::{Name, QueueKey},
    retry::RetryPolicy,
    time::Millis,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

pub use crate::webhook::{BodyFormat, Secret, Webhook};

/// The settings of one queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueueSettings {
    /// No task starts while the pause is set.
    pub pause: Option<Pause>,
    /// Attempts in flight at one time.
    pub concurrency: Option<u32>,
    /// The same for each `concurrency_key`; a task without one counts only for its queue.
    pub key_concurrency: Option<u32>,
    pub rate: Option<Rate>,
    pub key_rate: Option<Rate>,
    pub choice: Choice,
    pub retries: Retries,
    /// Waiting tasks beyond which inserts are refused.
    pub max_waiting: Option<u64>,
    /// The retry policy of tasks without one.
    pub retry: Option<RetryPolicy>,
    pub max_attempts: Option<u32>,
    /// Longest time of an attempt, for tasks that do not say.
    pub timeout_ms: Option<i64>,
    /// Fired and not started for this long, a task is dead.
    pub pending_timeout_ms: Option<i64>,
    pub keep: Keep,
    /// The lateness budget of the queue's tasks: later ones are counted and raise an alert. 0 is no bound, and `None`
    /// the default.
    pub lateness_budget_ms: Option<i64>,
    /// The delivery mode: executors pull tasks, or tasks are pushed to them. `None` selects the engine's default.
    pub mode: Option<Mode>,
    /// The weight among the queues of its namespace, when slots or starts are short; 1 unless set. Omitted if
    /// unset, like the namespace's newer fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Keys of labels with an index. Omitted if there are none, as above.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub indexed_labels: BTreeSet<String>,
    /// The source of due tasks. `None` is the hot set. Omitted if unset, like the following fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// The time from the beginning of one scan to the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scan_interval_ms: Option<i64>,
    /// Attempts in flight at one time over all engines, of a queue that is scanned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scan_concurrency: Option<u32>,
    /// Due tasks that a scan reads from one partition before it turns to the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scan_batch: Option<u32>,
    /// The treatment of fired tasks while their database is unavailable. `None`: the tasks wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub while_store_is_away: Option<WhileStoreIsAway>,
    /// The receiver of the queue's tasks. It stays stored while `mode` is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Box<Webhook>>,
}

/// The default time from one scan of a queue to the next.
pub const SCAN_INTERVAL_MS: i64 = 1_000;
/// Attempts in flight of a queue that is scanned, unless it is set.
pub const SCAN_CONCURRENCY: u32 = 2;
/// The default of due tasks that a scan reads from one partition at a time.
pub const SCAN_BATCH: u32 = 200;
/// The default lateness budget of a queue that is scanned.
pub const SCAN_LATENESS_BUDGET_MS: i64 = 600_000;

impl QueueSettings {
    /// True if no setting limits, orders or times out the starts of the queue's tasks.
    #[must_use]
    pub fn lets_all_start(&self) -> bool {
        let has_limit = self.concurrency.is_some() || self.key_concurrency.is_some();
        let has_rate = self.rate.is_some() || self.key_rate.is_some();
        let has_order = self.choice != Choice::default() || self.retries != Retries::default();
        let has_conditions =
            self.pause.is_some() || self.pending_timeout_ms.is_some() || self.while_store_is_away.is_some();
        !has_limit && !has_rate && !has_order && !has_conditions && !self.is_scanned()
    }

    /// True if the queue's tasks are found by scans of the store, and none of them is in the hot set.
    #[must_use]
    pub fn is_scanned(&self) -> bool {
        self.source == Some(Source::Store)
    }

    /// Executors get its preloaded tasks also while their database does not answer.
    #[must_use]
    pub fn hands_over_while_away(&self) -> bool {
        self.while_store_is_away == Some(WhileStoreIsAway::HandOver)
            && !self.is_scanned()
            && self.mode != Some(Mode::Push)
    }

    /// The receiver to which engines deliver the queue's tasks. `None` if executors lease them.
    #[must_use]
    pub fn delivered_to(&self) -> Option<&Webhook> {
        self.webhook.as_deref().filter(|_| self.mode == Some(Mode::Webhook))
    }

    /// The same settings as answers and the audit show them: without secrets.
    #[must_use]
    pub fn masked(&self) -> Self {
        Self { webhook: self.webhook.as_ref().map(|webhook| Box::new(webhook.masked())), ..self.clone() }
    }

    #[must_use]
    pub fn scan_interval_ms(&self) -> i64 {
        self.scan_interval_ms.unwrap_or(SCAN_INTERVAL_MS)
    }

    #[must_use]
    pub fn scan_concurrency(&self) -> u32 {
        self.scan_concurrency.unwrap_or(SCAN_CONCURRENCY)
    }

    #[must_use]
    pub fn scan_batch(&self) -> usize {
        usize::try_from(self.scan_batch.unwrap_or(SCAN_BATCH)).unwrap_or(usize::MAX)
    }

    /// `None` selects the default of all queues. 0 means unlimited.
    #[must_use]
    pub fn lateness_budget_ms(&self) -> Option<i64> {
        self.lateness_budget_ms.or_else(|| self.is_scanned().then_some(SCAN_LATENESS_BUDGET_MS))
    }
}

/// The settings of a namespace, or of everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScopeSettings {
    pub concurrency: Option<u32>,
    pub max_waiting: Option<u64>,
    /// Inserts are refused if the payloads of waiting tasks would exceed this many bytes. Omitted if unset,
    /// like the following fields: an older engine refuses unknown fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_payload_bytes: Option<u64>,
    /// The rate limit for the start of attempts, over all its queues. Omitted if unset: an older engine refuses
    /// unknown fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// The rate limit for the insertion of tasks, over all queues of the scope.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insert_rate: Option<Rate>,
    /// The weight of a namespace among all namespaces when slots or starts of everything are scarce. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// The description of a namespace for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Box<str>>,
    /// The deletion of a namespace: no task is accepted or started until all its contents are deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion: Option<Box<Deletion>>,
}

impl ScopeSettings {
    /// Attempts in flight, or their starts, are limited.
    #[must_use]
    pub const fn limits_starts(&self) -> bool {
        self.concurrency.is_some() || self.rate.is_some()
    }

    /// True if no setting delays fired tasks.
    #[must_use]
    pub const fn lets_all_start(&self) -> bool {
        !self.limits_starts() && self.deletion.is_none()
    }
}

/// A namespace is being deleted, since then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deletion {
    pub since: Millis,
    pub by: String,
    /// The number of tasks at that time; the remaining number shows the progress. `None` means unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    pub at: Millis,
    pub by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A token bucket: `limit` starts every `period_ms`, and up to `burst` at once after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    pub limit: u32,
    pub period_ms: i64,
    /// The burst, at least 1.
    pub burst: u32,
}

/// The selection of the next waiting task. Inside a priority it is always the oldest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case", deny_unknown_fields)]
pub enum Choice {
    /// Selects the most urgent waiting priority with this probability in percent, and otherwise one of the others,
    /// with equal probabilities.
    HighestFirst { percent: u8 },
    /// Weights of the priorities 1 to 5. One with weight 0 is served if no other waits.
    Weights { weights: [u32; 5] },
}

impl Default for Choice {
    fn default() -> Self {
        Self::HighestFirst { percent: 80 }
    }
}

/// The order of retries relative to new tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retries {
    /// The number of priorities by which a retry is lowered, down to the lowest priority.
    pub lower_by: u8,
    /// They have a pusher of their own, which gets this share of the starts, in percent, while both wait.
    pub share_percent: Option<u8>,
    /// The maximum number of the queue's slots that retries can hold.
    pub concurrency: Option<u32>,
}

/// The retention of finished tasks, in ms. `None` selects the engine's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Keep {
    pub succeeded_ms: Option<i64>,
    pub dead_ms: Option<i64>,
    pub cancelled_ms: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Executors request them.
    Pull,
    /// They are published to the bus.
    Push,
    /// Engines send them to the receiver of `webhook`.
    Webhook,
}

/// The source of a queue's due tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Engines load the tasks into the hot set before their instants.
    Hot,
    /// Engines find due tasks by scans of the store.
    Store,
}

/// The treatment of a queue's fired tasks while their database is unavailable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhileStoreIsAway {
    /// They wait for it.
    Wait,
    /// Executors get them by a lease that the engine keeps in its journal: at least once, without a lease in the store.
    HandOver,
}

/// The scope of settings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    Everything,
    Namespace(Name),
    Queue(QueueKey),
}

/// Settings of a scope: of a queue for a queue, of a scope for the others.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    Scope(ScopeSettings),
    Queue(Box<QueueSettings>),
}

impl Scope {
    /// The stored form: namespace and queue, empty if it has none.
    #[must_use]
    pub fn names(&self) -> (&str, &str) {
        match self {
            Self::Everything => ("", ""),
            Self::Namespace(namespace) => (namespace.as_str(), ""),
            Self::Queue(queue) => (queue.namespace.as_str(), queue.queue.as_str()),
        }
    }

    /// The inverse of `names`. `None` if no such scope exists.
    #[must_use]
    pub fn of_names(namespace: &str, queue: &str) -> Option<Self> {
        match (Name::new(namespace), Name::new(queue)) {
            (Ok(namespace), Ok(queue)) => Some(Self::Queue(QueueKey { namespace, queue })),
            (Ok(namespace), Err(_)) if queue.is_empty() => Some(Self::Namespace(namespace)),
            (Err(_), Err(_)) if namespace.is_empty() && queue.is_empty() => Some(Self::Everything),
            _ => None,
        }
    }
}

impl Setting {
    /// True if no task of a queue with these settings starts.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        matches!(self, Self::Queue(settings) if settings.pause.is_some())
    }

    /// The keys of a queue's indexed labels.
    pub fn indexed_labels(&self) -> impl Iterator<Item = &str> {
        let labels = match self {
            Self::Queue(settings) => Some(&settings.indexed_labels),
            Self::Scope(_) => None,
        };
        labels.into_iter().flatten().map(String::as_str)
    }

    /// The setting without secrets, for answers and the audit.
    #[must_use]
    pub fn masked(&self) -> Self {
        match self {
            Self::Scope(settings) => Self::Scope(settings.clone()),
            Self::Queue(settings) => Self::Queue(Box::new(settings.masked())),
        }
    }

    #[must_use]
    pub fn to_json(&self) -> String {
        let text = match self {
            Self::Scope(settings) => serde_json::to_string(settings),
            Self::Queue(settings) => serde_json::to_string(settings),
        };
        text.expect("maps have text keys, and numbers are finite")
    }

    /// # Errors
    /// When it does not have the form of `to_json` for such a scope: a newer program wrote it, or it was
    /// altered manually.
    pub fn of_json(scope: &Scope, text: &str) -> Result<Self, serde_json::Error> {
        match scope {
            Scope::Queue(_) => Ok(Self::Queue(serde_json::from_str(text)?)),
            Scope::Everything | Scope::Namespace(_) => Ok(Self::Scope(serde_json::from_str(text)?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_comes_back_from_its_names() {
        let name = |text: &str| Name::new(text).unwrap();
        let queue = QueueKey { namespace: name("eu"), queue: name("mail") };
        for scope in [Scope::Everything, Scope::Namespace(name("eu")), Scope::Queue(queue)] {
            let (namespace, queue) = scope.names();
            assert_eq!(Scope::of_names(namespace, queue), Some(scope.clone()));
        }
        assert_eq!(Scope::of_names("", "mail"), None);
        assert_eq!(Scope::of_names("a b", ""), None);
    }

    #[test]
    fn settings_come_back_from_their_json_and_unknown_fields_are_refused() {
        let scope = Scope::of_names("eu", "mail").unwrap();
        let pause = Some(Pause { at: Millis(7), by: "ann".to_owned(), reason: None });
        let settings = QueueSettings { pause, concurrency: Some(3), ..QueueSettings::default() };
        let setting = Setting::Queue(Box::new(settings));
        assert!(setting.is_paused());
        assert_eq!(Setting::of_json(&scope, &setting.to_json()).unwrap(), setting);
        assert!(Setting::of_json(&scope, r#"{"concurency":3}"#).is_err());
        assert!(Setting::of_json(&Scope::Everything, r#"{"key_rate":null}"#).is_err());
    }
}
