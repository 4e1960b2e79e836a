//! The one list of metrics: names, labels, meanings. `docs/metrics.md` is written from it. A name is never given another
//! meaning. Labels are bounded: beyond [`QUEUES_REPORTED_SEPARATELY`] queues, the rest is counted together.

mod connections;
mod databases;
mod exposition;
pub(crate) mod http;
mod inboxes;
mod ledger;
mod process;
mod queues;
mod webhooks;

pub(crate) mod render;

use punctual_engine::QUEUES_REPORTED_SEPARATELY;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    /// The word of the exposition format.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric: `punctual_<noun>_<unit>[_total]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    pub name: &'static str,
    pub kind: Kind,
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

macro_rules! metrics {
    ($($name:ident $kind:ident $text:literal [$($label:literal),*] $help:literal)+) => {
        $(pub const $name: Metric = Metric { name: $text, kind: Kind::$kind, labels: &[$($label),*], help: $help };)+
        /// Every metric, in the order of the documentation.
        pub const METRICS: &[Metric] = &[$($name),+];
    };
}

metrics! {
    TASKS Gauge "punctual_tasks" ["namespace", "queue", "state"]
        "Tasks in the store, by state, from the running account."
    TASKS_ACCEPTED Counter "punctual_tasks_accepted_total" []
        "Tasks ever stored, since the store was made; a replacement is no new task."
    TASKS_DELETED Counter "punctual_tasks_deleted_total" []
        "Tasks forgotten at the end of their retention, since the store was made."
    TASKS_UNACCOUNTED Gauge "punctual_tasks_unaccounted" []
        "Tasks that are not as they are accounted for: by the account at this moment (accepted, not deleted, in no state), or by the last count of the rows, whichever is more. Anything but 0 is a task that is lost, doubled or elsewhere: alert on it. GET /v1/shards/{shard}/ledger names it."
    LEDGER_COUNTED_AT Gauge "punctual_ledger_count_time_seconds" ["database"]
        "When the last count of all rows ended, in seconds since the epoch; absent before the first."
    LEDGER_TASKS Gauge "punctual_ledger_tasks" ["database", "partition", "status"]
        "Tasks of each partition by the last count; status: accepted, waiting, in_flight, finished, deleted, unaccounted."
    TASKS_INSERTED Counter "punctual_tasks_inserted_total" ["namespace", "queue"]
        "Tasks inserted or replaced, since the process began."
    TASKS_FIRED Counter "punctual_tasks_fired_total" ["namespace", "queue"]
        "Tasks fired; a task fires once for each attempt."
    TASKS_EARLY Counter "punctual_tasks_early_total" ["namespace", "queue"]
        "Tasks fired before their time. Anything but 0 breaks a promise: alert on it."
    TASKS_DISPATCHED Counter "punctual_tasks_dispatched_total" ["namespace", "queue"]
        "Tasks handed to executors."
    TASKS_RETRIED Counter "punctual_tasks_retried_total" ["namespace", "queue"]
        "Failed attempts that will be followed by another."
    TASKS_DEAD Counter "punctual_tasks_dead_total" ["namespace", "queue"]
        "Tasks that died: attempts exhausted, refused by the executor, or past their deadline."
    TASKS_CANCELLED Counter "punctual_tasks_cancelled_total" ["namespace", "queue"]
        "Tasks cancelled by a caller."
    TASKS_BLOCKED Counter "punctual_tasks_blocked_total" ["namespace", "queue"]
        "How often a start, or a look for tasks, found no free slot in a limit."
    TASKS_THROTTLED Counter "punctual_tasks_throttled_total" ["namespace", "queue"]
        "How often a start, or a look for tasks, found no start left in a rate."
    TASKS_PARKED Gauge "punctual_tasks_parked" ["namespace", "queue"]
        "Fired tasks put aside at this engine: their key is saturated, or no executor of a demanded version has asked."
    SLOTS_HELD Gauge "punctual_slots_held" ["namespace", "queue"]
        "Attempts that hold a slot of a queue with a limit; of the first 200 such queues."
    SLOTS_LIMIT Gauge "punctual_slots_limit" ["namespace", "queue"]
        "The limit of such a queue."
    SHARE_SLOTS Gauge "punctual_share_slots" ["namespace"]
        "Most slots of everything that a namespace may have now, because others want some; of the first 200 that do. Absent where it is alone."
    SHARE_SLOTS_HELD Gauge "punctual_share_slots_held" ["namespace"]
        "Attempts in flight of such a namespace, as of the last look at the shares."
    SHARE_STARTS Gauge "punctual_share_starts_per_second" ["namespace"]
        "Most starts a second that such a namespace may have of the rate of everything."
    SHARED_SLOTS_HELD Gauge "punctual_shared_slots_held" ["scope", "namespace"]
        "Attempts in flight that count for a limit of a namespace or of everything (scope); of the first 200 limits."
    SHARED_SLOTS_LIMIT Gauge "punctual_shared_slots_limit" ["scope", "namespace"]
        "That limit."
    KEY_SLOTS_HELD_MAX Gauge "punctual_key_slots_held_max" ["namespace", "queue"]
        "Attempts of the concurrency key that holds most slots of a queue with a limit by key. This and the next, up to executors: of the first 200 such queues and the first 10,000 attempts with slots."
    KEY_SLOTS_LIMIT Gauge "punctual_key_slots_limit" ["namespace", "queue"]
        "The limit of each of its keys."
    KEYS_SATURATED Gauge "punctual_keys_saturated" ["namespace", "queue"]
        "Its keys that hold as many slots as they may."
    RETRY_SLOTS_HELD Gauge "punctual_retry_slots_held" ["namespace", "queue"]
        "Attempts in flight that are retries, of a queue with a limit for them."
    RETRY_SLOTS_LIMIT Gauge "punctual_retry_slots_limit" ["namespace", "queue"]
        "That limit."
    EXECUTOR_SLOTS_HELD Gauge "punctual_executor_slots_held" ["namespace"]
        "Attempts of executors that said how many they hold at most; of the first 1,000 executors of the first 20 namespaces."
    EXECUTOR_SLOTS_LIMIT Gauge "punctual_executor_slots_limit" ["namespace"]
        "What those that hold any hold at most, together."
    EXECUTORS_SATURATED Gauge "punctual_executors_saturated" ["namespace"]
        "Those that hold as many as they can."
    TASKS_SUCCEEDED Counter "punctual_tasks_succeeded_total" []
        "Outcomes `succeeded` that were accepted."
    OUTCOMES Counter "punctual_outcomes_total" ["namespace", "queue", "outcome"]
        "Outcomes that this engine has accepted: succeeded, failed, snoozed, rejected."
    OUTCOMES_JOURNALLED Counter "punctual_outcomes_journalled_total" []
        "Outcomes accepted for later, because their database did not answer."
    OUTCOMES_NOT_JOURNALLED Counter "punctual_outcomes_journal_refused_total" []
        "Outcomes not taken for later either: the journal was full, or could not be written. Their executors report again. Alert on it."
    OUTCOMES_JOURNAL_APPLIED Counter "punctual_outcomes_journal_applied_total" []
        "Outcomes from the journal that their database has accepted."
    OUTCOMES_JOURNAL_STALE Counter "punctual_outcomes_journal_stale_total" []
        "Outcomes from the journal that did not count: the database had them, or the lease had ended and the task runs again."
    OUTCOMES_JOURNAL_WAITING Gauge "punctual_outcomes_journal_waiting" []
        "Outcomes in the journal that wait for their database, and leases handed over while it was away."
    AWAY_HANDED_OVER Counter "punctual_handed_over_while_away_total" []
        "Tasks that executors got while their database was away, in queues whose `while_store_is_away` is `hand_over`."
    AWAY_WRITTEN Counter "punctual_handed_over_while_away_written_total" []
        "Of these leases, those that the database has made since."
    AWAY_REFUSED Counter "punctual_handed_over_while_away_refused_total" []
        "Of these leases, those that the database has refused: the task was cancelled, changed, or leased by another engine. It may have run twice. Alert on it."
    AWAY_WAITING Gauge "punctual_handed_over_while_away_waiting" []
        "Of these leases, those of which the database has not heard yet."
    OUTCOMES_JOURNAL_BYTES Gauge "punctual_outcomes_journal_bytes" []
        "Bytes of them; journal.max_mib bounds it."
    PROCESSING Histogram "punctual_processing_seconds" ["namespace", "queue"]
        "From hand-over to outcome, by outcomes that this engine has accepted; under OpenMetrics with the last sampled trace of each bucket."
    LATENESS Histogram "punctual_lateness_seconds" ["namespace", "queue"]
        "How long after its time a task fired; resolution 1 ms."
    TASKS_OVER_BUDGET Counter "punctual_tasks_over_budget_total" ["namespace", "queue"]
        "Tasks that fired later than the `lateness_budget_ms` of their queue."
    OLDEST_WAITING Gauge "punctual_oldest_waiting_seconds" ["namespace", "queue"]
        "How long the oldest fired task has waited for an executor, from 1 s on, every 5 s, in queues that are not paused and partitions of this engine (the 100 oldest of each)."
    OLDEST_OVERDUE Gauge "punctual_oldest_overdue_seconds" ["namespace", "queue"]
        "How long ago the oldest unfired task of a queue was due, from 10 s on, read from the rows of every partition (the 8 oldest of each); absent where there is none."
    OVERDUE_NOT_FIRED Gauge "punctual_overdue_not_fired_seconds" ["database", "partition"]
        "How long ago the oldest unfired task was due, from 10 s on, read from the rows of every partition; 0: there is none."
    DATABASE_ANSWERS Gauge "punctual_database_answers" ["database"]
        "1 for each database of the store that answers this engine, else 0."
    DATABASE_ROWS Gauge "punctual_database_rows" ["database"]
        "Rows of tasks in it, finished ones too, as its server estimates them at most every 15 s."
    DATABASE_BYTES Gauge "punctual_database_bytes" ["database"]
        "Bytes of it, as its server estimates them."
    DATABASE_BUCKETS Gauge "punctual_database_buckets" ["database"]
        "Slices of its time axis; absent where it is not cut."
    DATABASE_BUCKETS_WIDE Gauge "punctual_database_buckets_wide" ["database"]
        "Slices to come that are too wide and have too many tasks to be cut: each goes as a whole. Absent until they were looked at."
    DATABASE_ARCHIVES Counter "punctual_database_archives_published_total" ["database"]
        "How often archives of it were published, since the store was made; absent where there are none."
    DATABASE_PARTITIONS Gauge "punctual_database_partitions" ["database"]
        "Partitions that live in it."
    QUEUE_PAUSED Gauge "punctual_queue_paused" ["namespace", "queue"]
        "1 for each queue that is paused."
    TASKS_READY Gauge "punctual_tasks_ready" ["namespace", "queue"]
        "Fired tasks that wait for an executor in the lines of this engine."
    HOT_DUE Gauge "punctual_hot_due_tasks" []
        "Tasks in the hot set and in this engine's memory whose time has not come; without Redis, those of the next ten seconds."
    HOT_FIRING Gauge "punctual_hot_firing_tasks" []
        "Tasks that have fired and whose hand-over is not known yet."
    WHEEL_TASKS Gauge "punctual_wheel_tasks" []
        "Tasks on the wheel."
    TASKS_PRELOADED Counter "punctual_tasks_preloaded_total" []
        "Tasks brought into the hot set by the preloader."
    TASKS_SWEPT Counter "punctual_tasks_swept_total" []
        "Tasks that only the refill found: each is a crash or a failure that was repaired."
    HOT_FULLNESS Gauge "punctual_hot_fullness_ratio" []
        "How full the hot set is, where it is fullest; 0 without a bound. From 0.8 on only what is due within 30 s is preloaded."
    HOT_AWAY Gauge "punctual_hot_away" []
        "1 while the hot set does not answer and firing continues from the store; 0 where none is set."
    CLOCK_WALL_AHEAD Gauge "punctual_clock_wall_ahead_seconds" []
        "How far this machine's wall clock is ahead of the engine's time."
    CLOCK_DATABASE_AHEAD Gauge "punctual_clock_database_ahead_seconds" []
        "How far the database's clock is ahead of the engine's time, to about a round trip."
    CLOCK_DOUBTFUL Gauge "punctual_clock_doubtful" []
        "1 while clocks disagree by more than `engine.clock_bound_ms`, and the odd one is not followed."
    CLOCK_STEPS Counter "punctual_clock_steps_total" []
        "How often the engine's time was set, after a step of the wall clock."
    HOT_OF_ANOTHER Gauge "punctual_hot_of_another_cluster" []
        "1 while Redis belongs to another cluster: nothing of it is used, and firing continues from the store. Alert on it."
    TERMS_RAISED Counter "punctual_terms_raised_total" []
        "Terms of partitions that were raised because the hot set had seen newer ones: the store was restored, or has lost its last writes. Alert on it."
    IDENTITY_CONFLICTS Counter "punctual_identity_conflicts_total" []
        "Tasks of others under the id of a run of a schedule or a node of a workflow, which got another id."
    HOT_REBUILT Counter "punctual_hot_rebuilt_partitions_total" []
        "Partitions filled again because the hot set had lost them, or had been away."
    FIRED_FROM_STORE Counter "punctual_fired_from_store_total" []
        "Tasks fired without the hot set, because there is none, it was away or full, or their queue is scanned."
    PARTITIONS_OWNED Gauge "punctual_partitions_owned" []
        "Partitions that this engine works on."
    TERMS_GAINED Counter "punctual_terms_gained_total" []
        "Partitions taken over: at the start, from another engine, or because the shares changed."
    TERMS_LOST Counter "punctual_terms_lost_total" []
        "Partitions that another engine took while this one held them, or whose lease ended unrenewed."
    OFFERED_AGAIN Counter "punctual_offered_again_total" []
        "Tasks that had fired and had no executor when their partition was taken over."
    PUBLISH_FAILURES Counter "punctual_publish_failures_total" []
        "Messages that the bus did not confirm; each try counts."
    TASKS_UNSENT Gauge "punctual_tasks_unsent" []
        "Tasks that could not be sent and wait for the compensator, as far as this engine knows."
    TASKS_COMPENSATED Counter "punctual_compensated_total" []
        "Unsent tasks that were brought back to be sent again; each time counts."
    LEASES_ENDED Counter "punctual_leases_ended_total" []
        "Leases that ended without an outcome."
    EXECUTORS Gauge "punctual_executors" ["state"]
        "Executors by state; said by the engine whose duty it is, 0 at the others."
    EXECUTORS_DIED Counter "punctual_executors_died_total" []
        "Executors that fell silent without a farewell. Their tasks run elsewhere when their leases end."
    SERVICE_RUNS Counter "punctual_service_runs_total" ["service"]
        "Runs of a service of the engine."
    SERVICE_FAILURES Counter "punctual_service_failures_total" ["service"]
        "Runs that failed; the next one tries again."
    SERVICE_PANICS Counter "punctual_service_panics_total" ["service"]
        "Runs that panicked; the service was started again."
    SERVICE_FAILING Gauge "punctual_service_failures_in_a_row" ["service"]
        "Runs of a service that failed since one ended well."
    SERVICE_SUCCEEDED_AT Gauge "punctual_service_last_success_time_seconds" ["service"]
        "When a run of a service last ended well, in seconds since the epoch."
    SERVICE_HANDLED Counter "punctual_service_handled_total" ["service"]
        "Things that the runs of a service did."
    HTTP_REQUESTS Counter "punctual_http_requests_total" ["method", "route", "status"]
        "Requests answered."
    HTTP_REFUSALS Counter "punctual_http_refusals_total" ["code", "status"]
        "Requests answered with 401, 403, 429 or 503, by code (docs/errors.md); without items of a batch."
    HTTP_LATENCY Histogram "punctual_http_request_seconds" ["method", "route"]
        "From the head of a request to the head of its answer; a long poll counts its wait."
    HTTP_CONNECTIONS Gauge "punctual_http_connections" ["phase"]
        "Open connections: opening (no whole request yet), serving (long polls too), idle, ending."
    HTTP_CONNECTIONS_MAX Gauge "punctual_http_connections_max" []
        "Most connections at once, set or from the descriptors of the process."
    HTTP_CONNECTIONS_ACCEPTED Counter "punctual_http_connections_accepted_total" []
        "Connections that got a place."
    HTTP_CONNECTIONS_REFUSED Counter "punctual_http_connections_refused_total" ["reason"]
        "Connections that got none: full, per_address (as many as one address may have), not_a_proxy (plain HTTP from elsewhere than `trusted_proxies`)."
    HTTP_CONNECTIONS_ENDED Counter "punctual_http_connections_ended_total" ["reason"]
        "Connections that the server ended: head_timeout (no whole request in time), idle, write_timeout (an answer was not taken), evicted (an idle one made room), stopping."
    HTTP_ACCEPT_FAILURES Counter "punctual_http_accept_failures_total" []
        "How often the system gave no connection, for want of descriptors or memory."
    HTTP_TLS_FAILURES Counter "punctual_http_tls_failures_total" ["reason"]
        "TLS handshakes that failed: plain (plain HTTP was spoken), timeout, handshake (no common version, a bad certificate)."
    HTTP_LONG_POLLS Gauge "punctual_http_long_polls" []
        "Calls that wait for tasks now, or are being answered."
    HTTP_BODIES Gauge "punctual_http_bodies_bytes" []
        "Bodies of requests that are held in memory."
    TLS_EXPIRES_AT Gauge "punctual_tls_certificate_expires_time_seconds" []
        "When the server's certificate ends, in seconds since the epoch; absent without TLS. Alert on it three weeks before."
    TLS_RELOADS Counter "punctual_tls_reloads_total" []
        "How often changed certificates were taken into use."
    TLS_RELOAD_FAILURES Counter "punctual_tls_reload_failures_total" []
        "How often changed certificates could not be used, and the old ones stayed."
    SCHEDULE_RUNS Counter "punctual_schedule_runs_total" ["outcome"]
        "Runs of schedules that this engine has decided: created, skipped, buffered, missed, or cancelled before they fired."
    SCHEDULES_BEHIND Gauge "punctual_schedules_behind_seconds" []
        "How long the schedule that waits longest waits for an engine to plan it; runs are made a minute ahead. Alert on it."
    BULK_TASKS Counter "punctual_bulk_tasks_total" ["action", "outcome"]
        "Tasks that this engine has handled for bulk operations: done (of an export: found), skipped (no longer a match), failed."
    BULK_AT_WORK Gauge "punctual_bulk_at_work" []
        "Bulk operations that this engine carried on within the last minute."
    BULK_BEHIND Gauge "punctual_bulk_behind_seconds" []
        "How long the operation that waits longest waits for an engine. Alert on it."
    INBOX_ROWS_WAITING Gauge "punctual_inbox_rows_waiting" ["inbox"]
        "Rows that are not tasks yet, counted up to 100,000; each engine that lists the inbox counts them."
    INBOX_OLDEST Gauge "punctual_inbox_oldest_seconds" ["inbox"]
        "Age of the first row that waits, from its INSERT; 0: none does. Alert on it."
    INBOX_ROWS_REFUSED Gauge "punctual_inbox_rows_refused" ["inbox"]
        "Rows set aside until they are repaired. Alert on it."
    INBOX_ROWS Counter "punctual_inbox_rows_total" ["inbox", "outcome"]
        "Rows that this engine has offered: inserted, existing, superseded (a higher version exists), refused, put_off (not now; each time counts)."
    INBOX_LAG Histogram "punctual_inbox_lag_seconds" ["inbox"]
        "From the INSERT of a row to its durable task, with the time until its transaction committed."
    WEBHOOK_DELIVERIES Counter "punctual_webhook_deliveries_total" ["result"]
        "Deliveries to receivers of webhook queues: succeeded, accepted (202), failed, rejected, gone (410), postponed (the engine stopped)."
    WEBHOOK_TIME Histogram "punctual_webhook_delivery_seconds" []
        "From the request of a delivery to its answer, or to its end without one."
    WEBHOOK_IN_FLIGHT Gauge "punctual_webhook_deliveries_in_flight" []
        "Deliveries that wait for an answer, or for the record of their outcome."
    WEBHOOK_HOSTS_HELD_BACK Gauge "punctual_webhook_hosts_held_back" []
        "Receivers' hosts that do not answer: their tasks wait. Alert on it."
    TRACE_SPANS Counter "punctual_trace_spans_exported_total" []
        "Spans that a collector of traces has taken; 0 where none is set."
    TRACES_DROPPED Counter "punctual_traces_dropped_total" []
        "Ended attempts not exported, because the collector was unavailable or the queue was full; no task waits for it."
    TRACE_FAILURES Counter "punctual_trace_export_failures_total" []
        "Requests to the collector that failed."
    PANICS Counter "punctual_panics_total" []
        "Panics in the process; each was caught and its part started again. Each is a defect."
    DURABILITY_WEAK Gauge "punctual_durability_weak" []
        "Settings of the store's servers by which they may lose what they acknowledge, or store nothing; every 15 s. Alert on it."
    LOG_LINES_LOST Counter "punctual_log_lines_lost_total" []
        "Lines of the log that could not be written: a full disk, a pipe that is closed or not read."
    PROCESS_START Gauge "punctual_process_start_time_seconds" []
        "When the server began, in seconds since the epoch."
    PROCESS_CPU Counter "punctual_process_cpu_seconds_total" []
        "CPU time of the process, in user and in kernel mode (Linux)."
    PROCESS_MEMORY Gauge "punctual_process_resident_memory_bytes" []
        "Resident memory of the process (Linux)."
}

/// `docs/metrics.md`.
#[must_use]
pub fn page() -> String {
    let mut page = format!(
        "# Metrics\n\n<!-- Written from crates/server/src/metrics.rs by its test; UPDATE_EXPECT=1 cargo test -p punctual-server rewrites it. -->\n\n\
        For operators. `GET /metrics` answers in the Prometheus text format, or in OpenMetrics 1.0 on request (`Accept: application/openmetrics-text`), \
        with traces as exemplars. Counters count since the process began, unless their text says otherwise.\n\
        Up to {QUEUES_REPORTED_SEPARATELY} queues have series of their own, the first that the engine counted; the rest share the queue `(other)`.\n\n",
    );
    for metric in METRICS {
        let labels =
            if metric.labels.is_empty() { String::new() } else { format!("; {}", metric.labels.join(",")) };
        page.push_str(&format!("- `{}` ({}{labels}): {}\n", metric.name, metric.kind.word(), metric.help));
    }
    page
}
