//! Queues: their settings, their contents, and the authors of changes. A queue's settings are direct fields of its
//! object, so that an answer can be changed and sent back.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::away::{WhileStoreIsAway, check_away};
use crate::fields::{Checks, Invalid, check_indexed, within};
use crate::limits::{
    DURATION_MAX_MS, LIMIT_MAX, MAX_ATTEMPTS_MAX, PAGE_MAX, PAUSE_REASON_MAX_CHARS, WAITING_MAX, WEIGHT_MAX,
};
use crate::pause::{Pause, PauseWish};
use crate::scan::{DEFAULT, Scan, Source};
use crate::scope_limits::{NONE, ONE, Rate};
use crate::webhook::{Webhook, check_webhook};
use crate::{At, Lateness, Rates, Retry, parse_settings};

/// Structs that have all settings of a queue, and more.
macro_rules! with_queue_settings {
    ($(#[$about:meta])* $name:ident { $($(#[$more:meta])* pub $field:ident: $kind:ty,)* }) => {
        $(#[$about])*
        pub struct $name {
            $($(#[$more])* pub $field: $kind,)*
            /// The maximum number of attempts in flight at one time.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(minimum = 1, maximum = 1_000_000)]
            pub concurrency: Option<u32>,
            /// The same for each `concurrency_key` of the queue.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(minimum = 1, maximum = 1_000_000)]
            pub key_concurrency: Option<u32>,
            /// The rate limit for the start of attempts.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub rate: Option<Rate>,
            /// The same for each `concurrency_key`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub key_rate: Option<Rate>,
            /// The selection of the next waiting task. Default: 80 percent highest first.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub choice: Option<Choice>,
            /// The order of retries relative to new tasks.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub retries: Option<Retries>,
            /// The maximum number of waiting tasks. Further inserts are refused with `queue.full`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(minimum = 1)]
            pub max_waiting: Option<u64>,
            /// The retry policy of tasks without one.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub retry: Option<Retry>,
            /// The maximum number of attempts of tasks without their own value.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(minimum = 1, maximum = 1000)]
            pub max_attempts: Option<u32>,
            /// The longest time of an attempt, for tasks without a value of their own.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(minimum = 1)]
            pub timeout_ms: Option<i64>,
            /// A task that has not started this long after it fired is dead.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(minimum = 1)]
            pub pending_timeout_ms: Option<i64>,
            /// The retention of finished tasks.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub keep: Option<Keep>,
            /// Tasks that fire later than this are counted and raise an alert. Default: 1,000; 0: never.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(minimum = 0)]
            pub lateness_budget_ms: Option<i64>,
            /// The delivery mode: executors pull tasks, tasks are pushed to them, or engines send them to a receiver.
            /// Default: the setting of the engines.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub mode: Option<Mode>,
            /// The share of the queue among the queues of its namespace, when slots or starts are short. Default: 1.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(minimum = 1, maximum = 1000)]
            pub weight: Option<u32>,
            /// Label keys with an index. Default: none.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(max_items = 8, example = json!(["customer"]))]
            pub indexed_labels: Option<Vec<String>>,
            /// The source of due tasks. Default: `hot`. With `store`, engines scan the database for them, without
            /// Redis.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub source: Option<Source>,
            /// The time between two scans. Default: 1,000. Only with `"source": "store"`, like the following fields.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(minimum = 100, maximum = 86_400_000)]
            pub scan_interval_ms: Option<i64>,
            /// The maximum number of attempts in flight at one time, over all engines. Default: 2.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(minimum = 1, maximum = 1000)]
            pub scan_concurrency: Option<u32>,
            /// The maximum number of due tasks that a scan reads from one partition before it reads the next
            /// partition. Default: 200.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(minimum = 1, maximum = 1000)]
            pub scan_batch: Option<u32>,
            /// The treatment of fired tasks while their database is unavailable. Default: `wait`. With `hand_over`,
            /// executors get preloaded tasks with leases in the engine's journal. Tasks run at least once, and a
            /// cancel can be too late.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub while_store_is_away: Option<WhileStoreIsAway>,
            /// The receiver of the tasks. Required with `"mode": "webhook"`; with another mode, it is only stored.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub webhook: Option<Webhook>,
        }
    };
}

with_queue_settings! {
    /// A queue: its settings, and its contents.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
    Queue {
        #[schema(example = "mail")]
        pub queue: String,
        #[serde(default)]
        #[schema(example = "default")]
        pub namespace: String,
        /// The revision of the last change; 0: nothing was ever set. The ETag is derived from it.
        #[serde(default)]
        pub revision: i64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<String>, format = DateTime)]
        pub updated_at: Option<At>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub updated_at_ms: Option<i64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub updated_by: Option<String>,
        /// Present while the queue is paused: no task starts.
        #[serde(default)]
        pub pause: Option<Pause>,
        /// Tasks by state. States without a task are omitted.
        #[serde(default)]
        #[schema(example = json!({"scheduled": 120, "running": 4}))]
        pub tasks: BTreeMap<String, i64>,
        /// Tasks that wait for their time or for an executor.
        #[serde(default)]
        pub waiting: i64,
        /// Fired tasks that wait for an executor now.
        #[serde(default)]
        pub ready: u64,
        /// Slots, if the queue counts for a limit. Only in answers about one queue.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub slots: Option<Slots>,
        /// Parked tasks, by what they wait for. At most 100 entries. Present only in answers about one queue.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub parked: Vec<Parked>,
        /// Labels of `indexed_labels` whose earlier tasks are still being indexed. Until then a search reads all tasks. Only in answers
        /// about one queue.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub indexing: Vec<Indexing>,
        /// Counts of the answering engine. Absent if it has counted nothing of the queue.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub counted: Option<QueueCounts>,
        /// Rates over all engines. Each engine reports its 500 busiest queues every ten seconds. Absent if others are busier, or if the
        /// reports cannot be read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub rates: Option<Rates>,
    }
}

/// The answering engine's counts of a queue since it began; other engines have their own counts, shown by each one's `GET
/// /metrics`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct QueueCounts {
    pub inserted: u64,
    pub fired: u64,
    pub retried: u64,
    pub dead: u64,
    pub cancelled: u64,
    pub lateness: Lateness,
}

/// A label whose index is not complete yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Indexing {
    pub label: String,
    /// The indexed share of the tasks that existed when the label was declared; with several databases, of the slowest one.
    #[schema(minimum = 0, maximum = 99)]
    pub percent: u8,
}

/// The holders of a queue's slots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Slots {
    /// The limit of the queue. Absent if it counts only for a limit of a key, of its namespace, or of everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    pub held: u64,
    /// The holders of slots, at most 100 of them.
    pub holders: Vec<SlotHolder>,
}

/// An attempt that holds a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SlotHolder {
    pub r#ref: String,
    #[schema(value_type = String, format = DateTime)]
    pub since: At,
    pub since_ms: i64,
    /// The scopes for which it counts: `everything`, `namespace:NAME`, `queue`, `retries`, `key:KEY`.
    pub scopes: Vec<String>,
}

/// Tasks that wait for the same thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Parked {
    pub waits_for: ParkedFor,
    /// The `concurrency_key`, or the `handler_versions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub tasks: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ParkedFor {
    /// A slot or a start of their `concurrency_key`.
    Key,
    /// A slot for retries.
    Retries,
    /// An executor of a fitting version.
    HandlerVersions,
    /// An executor that takes tasks of their kind.
    Kind,
}

with_queue_settings! {
    /// All settings of a queue. Omitted settings get their default; an omitted pause stays as it is.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
    #[serde(deny_unknown_fields)]
    PutQueue {
        /// `true` or `{"reason": "..."}` pauses, `false` resumes. Omitted or `null`: unchanged.
        #[serde(default, skip_serializing)]
        pub pause: Option<PauseWish>,
        #[serde(default, skip_serializing)]
        #[schema(ignore)]
        pub queue: Option<IgnoredAny>,
        #[serde(default, skip_serializing)]
        #[schema(ignore)]
        pub namespace: Option<IgnoredAny>,
        #[serde(default, skip_serializing)]
        #[schema(ignore)]
        pub slots: Option<IgnoredAny>,
        #[serde(default, skip_serializing)]
        #[schema(ignore)]
        pub parked: Option<IgnoredAny>,
        #[serde(default, skip_serializing)]
        #[schema(ignore)]
        pub indexing: Option<IgnoredAny>,
        #[serde(default, skip_serializing)]
        #[schema(ignore)]
        pub counted: Option<IgnoredAny>,
        #[serde(default, skip_serializing)]
        #[schema(ignore)]
        pub rates: Option<IgnoredAny>,
        #[serde(default, skip_serializing)]
        #[schema(ignore)]
        pub revision: Option<IgnoredAny>,
        #[serde(default, skip_serializing)]
        #[schema(ignore)]
        pub updated_at: Option<IgnoredAny>,
        #[serde(default, skip_serializing)]
        #[schema(ignore)]
        pub updated_at_ms: Option<IgnoredAny>,
        #[serde(default, skip_serializing)]
        #[schema(ignore)]
        pub updated_by: Option<IgnoredAny>,
        #[serde(default, skip_serializing)]
        #[schema(ignore)]
        pub tasks: Option<IgnoredAny>,
        #[serde(default, skip_serializing)]
        #[schema(ignore)]
        pub waiting: Option<IgnoredAny>,
        #[serde(default, skip_serializing)]
        #[schema(ignore)]
        pub ready: Option<IgnoredAny>,
    }
}

/// The selection of the next priority. Within a priority, the oldest task is first.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "by", rename_all = "snake_case", deny_unknown_fields)]
pub enum Choice {
    /// Selects the most urgent waiting priority with this probability, and otherwise one of the others at random.
    #[schema(title = "ChoiceHighestFirst")]
    HighestFirst { percent: u8 },
    /// Weights of the priorities 1 to 5. A priority with weight 0 is served only if no other waits.
    #[schema(title = "ChoiceWeights")]
    Weights { weights: [u32; 5] },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Retries {
    /// The number of priorities by which a retry is lowered, down to the lowest priority.
    #[schema(maximum = 4)]
    pub lower_by: u8,
    /// The share of the starts that retries get while new tasks wait too, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    pub share_percent: Option<u8>,
    /// The maximum number of slots of the queue that retries can hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub concurrency: Option<u32>,
}

/// The retention of finished tasks in milliseconds. Default: the settings of the engines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Keep {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub succeeded_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancelled_ms: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Executors request tasks.
    Pull,
    /// Tasks are published to the bus.
    Push,
    /// Engines send tasks to the receiver of `webhook`.
    Webhook,
}

/// One change of a queue's settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SettingChange {
    pub revision: i64,
    #[schema(value_type = String, format = DateTime)]
    pub changed_at: At,
    pub changed_at_ms: i64,
    pub changed_by: String,
    /// All settings after the change; `null`: none.
    #[schema(value_type = Option<Object>)]
    pub settings: Option<serde_json::Value>,
}

/// Query parameters of a list of changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SearchChanges {
    /// 1 to 1,000. Default: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next_cursor` of the preceding page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

impl SearchChanges {
    pub fn check(&self) -> Result<(), Invalid> {
        let mut checks = Checks::default();
        checks.range("/limit", self.limit, 1..=PAGE_MAX);
        checks.done()
    }
}

impl PutQueue {
    /// Reads and checks one; every faulty field is named.
    pub fn from_json(json: &[u8]) -> Result<Self, Invalid> {
        let put_queue: Self = parse_settings(json)?;
        put_queue.check()?;
        Ok(put_queue)
    }

    pub fn check(&self) -> Result<(), Invalid> {
        let mut checks = Checks::default();
        within(&mut checks, "/concurrency", self.concurrency, 1..=LIMIT_MAX, NONE);
        within(&mut checks, "/key_concurrency", self.key_concurrency, 1..=LIMIT_MAX, NONE);
        self.rate.iter().for_each(|rate| rate.check(&mut checks, "/rate"));
        self.key_rate.iter().for_each(|rate| rate.check(&mut checks, "/key_rate"));
        self.choice.iter().for_each(|choice| choice.check(&mut checks));
        self.retries.iter().for_each(|retries| retries.check(&mut checks, self.concurrency));
        within(&mut checks, "/max_waiting", self.max_waiting, 1..=WAITING_MAX, NONE);
        self.retry.iter().for_each(|retry| retry.check(&mut checks));
        within(&mut checks, "/max_attempts", self.max_attempts, 1..=MAX_ATTEMPTS_MAX, DEFAULT);
        let spans = [("/timeout_ms", self.timeout_ms), ("/pending_timeout_ms", self.pending_timeout_ms)];
        for (pointer, span) in spans {
            within(&mut checks, pointer, span, 1..=DURATION_MAX_MS, NONE);
        }
        within(&mut checks, "/lateness_budget_ms", self.lateness_budget_ms, 0..=DURATION_MAX_MS, DEFAULT);
        within(&mut checks, "/weight", self.weight, 1..=WEIGHT_MAX, ONE);
        self.indexed_labels.iter().for_each(|indexed_label| check_indexed(&mut checks, indexed_label));
        let scan = Scan {
            source: self.source,
            is_pushed: self.mode == Some(Mode::Push),
            interval_ms: self.scan_interval_ms,
            concurrency: self.scan_concurrency,
            batch: self.scan_batch,
        };
        scan.check(&mut checks);
        let is_pushed = self.mode == Some(Mode::Push);
        check_away(&mut checks, self.while_store_is_away, self.source, is_pushed);
        check_webhook(&mut checks, self.webhook.as_ref(), self.mode == Some(Mode::Webhook));
        let keep = self.keep.unwrap_or_default();
        let kept = [
            ("/keep/succeeded_ms", keep.succeeded_ms),
            ("/keep/dead_ms", keep.dead_ms),
            ("/keep/cancelled_ms", keep.cancelled_ms),
        ];
        for (pointer, span) in kept {
            within(&mut checks, pointer, span, 0..=DURATION_MAX_MS, DEFAULT);
        }
        if let Some(PauseWish::Because { reason }) = &self.pause {
            checks.at_most_chars("/pause/reason", reason.as_deref(), PAUSE_REASON_MAX_CHARS);
        }
        checks.done()
    }
}

impl Choice {
    fn check(&self, checks: &mut Checks) {
        match self {
            Self::HighestFirst { percent } => {
                within(checks, "/choice/percent", Some(*percent), 0..=100, "80 is the default");
            }
            Self::Weights { weights } => {
                if weights.iter().all(|weight| *weight == 0) {
                    checks.refuse("/choice/weights", "must not all be 0: give at least one priority a share");
                }
                for (nth, weight) in weights.iter().enumerate() {
                    let pointer = format!("/choice/weights/{nth}");
                    within(
                        checks,
                        &pointer,
                        Some(*weight),
                        0..=LIMIT_MAX,
                        "shares are relative to each other",
                    );
                }
            }
        }
    }
}

impl Retries {
    fn check(&self, checks: &mut Checks, concurrency: Option<u32>) {
        within(checks, "/retries/lower_by", Some(self.lower_by), 0..=4, "0 leaves priorities as they are");
        let no_pusher = "leave it out for no pusher of their own";
        within(checks, "/retries/share_percent", self.share_percent, 1..=100, no_pusher);
        within(checks, "/retries/concurrency", self.concurrency, 1..=LIMIT_MAX, NONE);
        if let (Some(mine), Some(all)) = (self.concurrency, concurrency)
            && mine > all
        {
            let detail = format!("must be at most the queue's concurrency, {all}, not {mine}; {NONE}");
            checks.refuse("/retries/concurrency", detail);
        }
    }
}

#[cfg(test)]
#[path = "queues_tests.rs"]
mod tests;
