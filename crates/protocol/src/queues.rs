//! Queues and limits: what is set, what stands in them, and who changed what. What is set of a queue stands flat in its
//! object, so that what was read can be changed and put back.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::away::{WhileStoreIsAway, check_away};
use crate::fields::{Checks, Invalid, check_indexed, within};
use crate::limits::{
    DURATION_MAX_MS, LIMIT_MAX, MAX_ATTEMPTS_MAX, PAGE_MAX, PAUSE_REASON_MAX_CHARS, PAYLOAD_BYTES_MAX,
    WAITING_MAX, WEIGHT_MAX,
};
use crate::scan::{DEFAULT, Scan, Source};
use crate::{At, Lateness, Rates, Retry, parse, parse_settings};

/// Structs that have all settings of a queue, and more.
macro_rules! with_queue_settings {
    ($(#[$about:meta])* $name:ident { $($(#[$more:meta])* pub $field:ident: $kind:ty,)* }) => {
        $(#[$about])*
        pub struct $name {
            $($(#[$more])* pub $field: $kind,)*
            /// Attempts in flight at one time.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(minimum = 1, maximum = 1_000_000)]
            pub concurrency: Option<u32>,
            /// The same for each `concurrency_key` of the queue.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(minimum = 1, maximum = 1_000_000)]
            pub key_concurrency: Option<u32>,
            /// Starts per time.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub rate: Option<Rate>,
            /// The same for each `concurrency_key`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub key_rate: Option<Rate>,
            /// Which of the waiting tasks goes next; 80 percent highest first unless set.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub choice: Option<Choice>,
            /// How tasks that are tried again stand beside new ones.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub retries: Option<Retries>,
            /// Waiting tasks from which on inserts are refused with `queue.full`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(minimum = 1)]
            pub max_waiting: Option<u64>,
            /// For tasks that do not say.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub retry: Option<Retry>,
            /// For tasks that do not say.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(minimum = 1, maximum = 1000)]
            pub max_attempts: Option<u32>,
            /// Longest time of an attempt, for tasks that do not say.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(minimum = 1)]
            pub timeout_ms: Option<i64>,
            /// Fired and not started for so long, a task is dead.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(minimum = 1)]
            pub pending_timeout_ms: Option<i64>,
            /// How long finished tasks are kept.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub keep: Option<Keep>,
            /// What fires later than this is counted and raises an alert; 1,000 unless set, 0 for never.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(minimum = 0)]
            pub lateness_budget_ms: Option<i64>,
            /// Who has the tasks brought to them; as the engines were started unless set.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub mode: Option<Mode>,
            /// Among the queues of its namespace, when slots or starts are short; 1 unless set.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(minimum = 1, maximum = 1000)]
            pub weight: Option<u32>,
            /// Keys of labels by which the tasks of the queue are found fast; none unless set.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(max_items = 8, example = json!(["customer"]))]
            pub indexed_labels: Option<Vec<String>>,
            /// Where due tasks are found: `hot` unless set. With `store` they are scanned for in the database, and Redis is not needed.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub source: Option<Source>,
            /// From one scan to the next; 1,000 unless set. Only with `"source": "store"`, as what follows.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(minimum = 100, maximum = 86_400_000)]
            pub scan_interval_ms: Option<i64>,
            /// Attempts in flight at one time, over all engines; 2 unless set.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(minimum = 1, maximum = 1000)]
            pub scan_concurrency: Option<u32>,
            /// Due tasks that a scan takes from one partition before it looks at the others; 200 unless set.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(minimum = 1, maximum = 1000)]
            pub scan_batch: Option<u32>,
            /// What becomes of fired tasks while their database does not answer: `wait` unless set. With `hand_over` executors get
            /// what is preloaded, by leases in the engine's journal: at least once, and a cancel may come too late.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub while_store_is_away: Option<WhileStoreIsAway>,
        }
    };
}

with_queue_settings! {
    /// A queue: what is set, and what stands in it.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
    Queue {
        #[schema(example = "mail")]
        pub queue: String,
        #[serde(default)]
        #[schema(example = "default")]
        pub namespace: String,
        /// Of the last change; 0: nothing was ever set. The ETag is made of it.
        #[serde(default)]
        pub revision: i64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<String>, format = DateTime)]
        pub updated_at: Option<At>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub updated_at_ms: Option<i64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub updated_by: Option<String>,
        /// Nothing starts while it is there.
        #[serde(default)]
        pub pause: Option<Pause>,
        /// Tasks by state; states without a task are left out.
        #[serde(default)]
        #[schema(example = json!({"scheduled": 120, "running": 4}))]
        pub tasks: BTreeMap<String, i64>,
        /// Tasks that have not been handed over, whether or not they are due.
        #[serde(default)]
        pub waiting: i64,
        /// Fired tasks that wait for an executor now.
        #[serde(default)]
        pub ready: u64,
        /// Of a queue that counts for a limit; only in answers about one queue.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub slots: Option<Slots>,
        /// Fired tasks that are put aside, by what they wait for, at most 100; only in answers about one queue.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub parked: Vec<Parked>,
        /// Labels of `indexed_labels` of which tasks are still being entered that stood when they were declared: until then a
        /// search walks; only in answers about one queue.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub indexing: Vec<Indexing>,
        /// Absent where it has counted nothing of the queue.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub counted: Option<QueueCounts>,
        /// Of all engines together. Each tells every ten seconds of the 500 queues in which most happens; absent: so many are
        /// busier, or what engines tell cannot be read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub rates: Option<Rates>,
    }
}

/// What the engine that answers has counted of a queue since it began; other engines have counts of their own, which `GET /metrics` of
/// each tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct QueueCounts {
    pub inserted: u64,
    pub fired: u64,
    pub retried: u64,
    pub dead: u64,
    pub cancelled: u64,
    pub lateness: Lateness,
}

/// A label that is not wholly indexed yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Indexing {
    pub label: String,
    /// Of the tasks that stood when it was declared; where there are several databases, of the one that is least far.
    #[schema(minimum = 0, maximum = 99)]
    pub percent: u8,
}

/// Who holds the slots of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Slots {
    /// The queue's own limit. Absent: it counts only for a limit of a key, of its namespace, or of everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    pub held: u64,
    /// At most 100 of them.
    pub holders: Vec<SlotHolder>,
}

/// An attempt that holds a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SlotHolder {
    pub r#ref: String,
    #[schema(value_type = String, format = DateTime)]
    pub since: At,
    pub since_ms: i64,
    /// What it counts for: `everything`, `namespace:NAME`, `queue`, `retries`, `key:KEY`.
    pub scopes: Vec<String>,
}

/// Tasks that wait for the same.
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
    /// A slot or a start of a `concurrency_key`.
    Key,
    /// A slot for tasks that are tried again.
    Retries,
    /// An executor of such a version.
    HandlerVersions,
    /// An executor that takes tasks of this kind: one asked that takes only others.
    Kind,
}

with_queue_settings! {
    /// All that a queue is to have: what is left out has its default from then on; only a pause stays as it is.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
    #[serde(deny_unknown_fields)]
    PutQueue {
        /// `true` or `{"reason": "..."}` pauses, `false` resumes; left out or `null`, it stays as it is.
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

/// Who paused a queue, when and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Pause {
    #[schema(value_type = String, format = DateTime)]
    pub at: At,
    pub at_ms: i64,
    pub by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Of a put: pause or resume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
pub enum PauseWish {
    Is(bool),
    Because {
        #[serde(default)]
        reason: Option<String>,
    },
}

/// Of the call that pauses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseRequest {
    /// Shown wherever the pause is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub reason: Option<String>,
    /// Who pauses; `api` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub by: Option<String>,
}

/// A token bucket: `limit` starts every `period_ms`, and up to `burst` at once after a rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub limit: u32,
    #[schema(minimum = 1)]
    pub period_ms: i64,
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub burst: u32,
}

/// Inside a priority it is always the oldest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "by", rename_all = "snake_case", deny_unknown_fields)]
pub enum Choice {
    /// With this probability the most urgent priority that waits, else one of the others, each as often.
    #[schema(title = "ChoiceHighestFirst")]
    HighestFirst { percent: u8 },
    /// Shares of the priorities 1 to 5; one that is 0 goes when nothing else waits.
    #[schema(title = "ChoiceWeights")]
    Weights { weights: [u32; 5] },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Retries {
    /// Priorities lower, down to the lowest.
    #[schema(maximum = 4)]
    pub lower_by: u8,
    /// They have a pusher of their own with this share of the starts, in percent, while both wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    pub share_percent: Option<u8>,
    /// Of the queue's slots, at most so many for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub concurrency: Option<u32>,
}

/// What is left out is as the engines were started.
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
    /// Executors ask for them.
    Pull,
    /// They are published to the bus.
    Push,
}

/// Limits of a namespace, or of everything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Limits {
    /// Of a namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(default)]
    pub revision: i64,
    /// Attempts in flight at one time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub concurrency: Option<u32>,
    /// Waiting tasks from which on inserts are refused with `queue.full`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_waiting: Option<u64>,
    /// Bytes of payloads of waiting tasks beyond which inserts are refused with `quota.payload_bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_payload_bytes: Option<u64>,
    /// How fast attempts start, of all queues together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// How fast tasks are accepted, of all queues together; faster ones are refused with `quota.insert_rate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insert_rate: Option<Rate>,
    /// Of a namespace, among all, when slots or starts of everything are short; 1 unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub weight: Option<u32>,
}

/// What is left out is without a limit from then on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutLimits {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub concurrency: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_waiting: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_payload_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insert_rate: Option<Rate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub weight: Option<u32>,
    #[serde(default, skip_serializing)]
    #[schema(ignore)]
    pub namespace: Option<IgnoredAny>,
    #[serde(default, skip_serializing)]
    #[schema(ignore)]
    pub revision: Option<IgnoredAny>,
}

/// One change of what is set for a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SettingChange {
    pub revision: i64,
    #[schema(value_type = String, format = DateTime)]
    pub changed_at: At,
    pub changed_at_ms: i64,
    pub changed_by: String,
    /// All that was set by it; `null`: nothing any more.
    #[schema(value_type = Option<Object>)]
    pub settings: Option<serde_json::Value>,
}

/// Which changes are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SearchChanges {
    /// 1 to 1,000; 100 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next_cursor` of the page before.
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

const NONE: &str = "leave it out for no limit";
const ONE: &str = "leave it out for 1";

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

impl Rate {
    fn check(&self, checks: &mut Checks, at: &str) {
        let way_out = "leave the whole rate out for no limit";
        within(checks, &format!("{at}/limit"), Some(self.limit), 1..=LIMIT_MAX, way_out);
        within(checks, &format!("{at}/period_ms"), Some(self.period_ms), 1..=DURATION_MAX_MS, way_out);
        within(checks, &format!("{at}/burst"), Some(self.burst), 1..=LIMIT_MAX, way_out);
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

impl PutLimits {
    pub fn from_json(json: &[u8]) -> Result<Self, Invalid> {
        let put_limits: Self = parse_settings(json)?;
        let mut checks = Checks::default();
        within(&mut checks, "/concurrency", put_limits.concurrency, 1..=LIMIT_MAX, NONE);
        within(&mut checks, "/max_waiting", put_limits.max_waiting, 1..=WAITING_MAX, NONE);
        within(&mut checks, "/max_payload_bytes", put_limits.max_payload_bytes, 1..=PAYLOAD_BYTES_MAX, NONE);
        put_limits.rate.iter().for_each(|rate| rate.check(&mut checks, "/rate"));
        put_limits.insert_rate.iter().for_each(|rate| rate.check(&mut checks, "/insert_rate"));
        within(&mut checks, "/weight", put_limits.weight, 1..=WEIGHT_MAX, ONE);
        checks.done()?;
        Ok(put_limits)
    }
}

impl PauseRequest {
    /// The body may be left out.
    pub fn from_json(json: &[u8]) -> Result<Self, Invalid> {
        let request: Self = if json.trim_ascii().is_empty() { Self::default() } else { parse(json)? };
        let mut checks = Checks::default();
        checks.text("/by", request.by.as_deref(), PAUSE_REASON_MAX_CHARS);
        checks.at_most_chars("/reason", request.reason.as_deref(), PAUSE_REASON_MAX_CHARS);
        checks.done()?;
        Ok(request)
    }
}

#[cfg(test)]
#[path = "queues_tests.rs"]
mod tests;
