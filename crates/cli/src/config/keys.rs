//! Every setting: its key in the file, its variable in the environment, its default and one line about it. The one
//! list that the layers, `punctual config` and the error messages are made from.

use punctual_engine::Options;
use punctual_protocol::limits::{PAYLOAD_BYTES_DEFAULT, REQUEST_BYTES_DEFAULT};
use punctual_server::ServerOptions;

/// Runs of schedules are made a minute ahead, and only one that waits for another is as late as this.
const PLAN_EVERY_MS: u64 = 200;

#[derive(Debug)]
pub(crate) struct SettingKey {
    /// The name in the file; a dot separates a table from its field.
    pub(crate) name: &'static str,
    pub(crate) variable: &'static str,
    pub(crate) default: fn() -> String,
    pub(crate) about: &'static str,
}

pub(crate) const LISTEN: &str = "listen";
pub(crate) const DATA: &str = "data";
pub(crate) const STORE_URL: &str = "store.url";
pub(crate) const PARTITIONS: &str = "store.partitions";
pub(crate) const WEAK_DURABILITY: &str = "store.allow_weak_durability";
pub(crate) const HOT_URL: &str = "hot.url";
pub(crate) const HOT_PREFIX: &str = "hot.prefix";
pub(crate) const HOT_MEMORY_MAX_MIB: &str = "hot.memory_max_mib";
pub(crate) const PUSH_QUEUES: &str = "queues.push";
pub(crate) const PUSH_LEASE_MS: &str = "queues.push_lease_ms";
pub(crate) const HORIZON_MS: &str = "engine.horizon_ms";
pub(crate) const AHEAD_MS: &str = "engine.ahead_ms";
pub(crate) const CLOCK_BOUND_MS: &str = "engine.clock_bound_ms";
pub(crate) const LOOKAHEAD_MS: &str = "engine.lookahead_ms";
pub(crate) const SWEEP_INTERVAL_MS: &str = "intervals.sweep_ms";
pub(crate) const RECONCILE_INTERVAL_MS: &str = "intervals.reconcile_ms";
pub(crate) const COMPENSATE_INTERVAL_MS: &str = "intervals.compensate_ms";
pub(crate) const LEASE_CHECK_INTERVAL_MS: &str = "intervals.lease_check_ms";
pub(crate) const OVERDUE_LOOK_INTERVAL_MS: &str = "intervals.overdue_look_ms";
pub(crate) const RETIRE_INTERVAL_MS: &str = "intervals.retention_ms";
pub(crate) const TRIGGER_INTERVAL_MS: &str = "intervals.trigger_ms";
pub(crate) const BUCKETS_WIDTH_HOURS: &str = "buckets.width_hours";
pub(crate) const BUCKETS_AHEAD_HOURS: &str = "buckets.ahead_hours";
pub(crate) const BUCKETS_CARRY_ROWS: &str = "buckets.carry_rows";
pub(crate) const PUSH_STREAMS: &str = "queues.streams";
pub(crate) const SUCCEEDED_MS: &str = "retention.succeeded_ms";
pub(crate) const STOPPED_MS: &str = "retention.stopped_ms";
pub(crate) const CANCELLED_MS: &str = "retention.cancelled_ms";
pub(crate) const DEAD_MS: &str = "retention.dead_ms";
pub(crate) const SCHEDULE_RUNS_MS: &str = "retention.schedule_runs_ms";
pub(crate) const WORKFLOWS_MS: &str = "retention.workflows_ms";
pub(crate) const BULK_MS: &str = "retention.bulk_ms";
pub(crate) const EVENTS_MS: &str = "retention.events_ms";
pub(crate) const TRACES_URL: &str = "traces.otlp_url";
pub(crate) const TRACES_PERCENT: &str = "traces.sample_percent";
pub(crate) const TRACES_HEADERS: &str = "traces.headers";
pub(crate) const TRACES_PROTOCOL: &str = "traces.protocol";
pub(crate) const TRACES_TIMEOUT_MS: &str = "traces.timeout_ms";
pub(crate) const TRACES_SERVICE_NAME: &str = "traces.service_name";
pub(crate) const TRACES_RESOURCE: &str = "traces.resource";
pub(crate) const INBOX_URL: &str = "inbox.url";
pub(crate) const ARCHIVE_URL: &str = "archive.url";
pub(crate) const ARCHIVE_AFTER_DAYS: &str = "archive.after_days";
pub(crate) const PAYLOADS_URL: &str = "payloads.url";
pub(crate) const PAYLOADS_INLINE_MAX_BYTES: &str = "payloads.inline_max_bytes";
pub(crate) const PAYLOADS_MAX_BYTES: &str = "payloads.max_bytes";
pub(crate) const BATCH_BODY_MAX_BYTES: &str = "limits.batch_body_max_bytes";
pub(crate) const PAYLOAD_MAX_BYTES: &str = "limits.payload_max_bytes";
pub(crate) const INSERT_WAIT_MAX_MS: &str = "limits.insert_wait_max_ms";
pub(crate) const JOURNAL_DIRECTORY: &str = "journal.directory";
pub(crate) const JOURNAL_MAX_MIB: &str = "journal.max_mib";
pub(crate) const LOG_FILTER: &str = "log.filter";
pub(crate) const LOG_FORMAT: &str = "log.format";

pub(crate) const HOT_TLS_CA: &str = "hot.tls_ca";
pub(crate) const HOT_TLS_CERT: &str = "hot.tls_cert";
pub(crate) const HOT_TLS_KEY: &str = "hot.tls_key";

/// Secret settings: shown without their secret, and each may be in a file of its own (`…_file`, and
/// `…_FILE` in the environment).
const SECRET: &[&str] = &[STORE_URL, HOT_URL, INBOX_URL, AUTH_ADMIN_TOKEN, TRACES_HEADERS];

/// The suffix of the name of a secret setting, in the file and as a flag, to name the file that it is read from.
pub(crate) const FILE_SUFFIX: &str = "_file";
pub(crate) const FILE_SUFFIX_OF_VARIABLES: &str = "_FILE";

impl SettingKey {
    pub(crate) fn is_secret(&self) -> bool {
        SECRET.contains(&self.name)
    }
}
// Of the listener.
pub(crate) const LISTEN_PLAIN: &str = "listen_plain";
pub(crate) const TRUSTED_PROXIES: &str = "trusted_proxies";
pub(crate) const TLS_CERT: &str = "tls.cert";
pub(crate) const TLS_KEY: &str = "tls.key";
pub(crate) const TLS_CLIENT_CA: &str = "tls.client_ca";
pub(crate) const HTTP_CONNECTIONS_MAX: &str = "http.connections_max";
pub(crate) const HTTP_CONNECTIONS_PER_ADDRESS_MAX: &str = "http.connections_per_address_max";
pub(crate) const HTTP_LONG_POLLS_MAX: &str = "http.long_polls_max";
pub(crate) const HTTP_HEADER_TIMEOUT_MS: &str = "http.header_timeout_ms";
pub(crate) const HTTP_BODY_TIMEOUT_MS: &str = "http.body_timeout_ms";
pub(crate) const HTTP_WRITE_TIMEOUT_MS: &str = "http.write_timeout_ms";
pub(crate) const HTTP_IDLE_TIMEOUT_MS: &str = "http.idle_timeout_ms";
pub(crate) const HTTP_BODIES_MAX_MIB: &str = "http.bodies_max_mib";
pub(crate) const AUTH_ADMIN_TOKEN: &str = "auth.admin_token";
pub(crate) const AUDIT_KEEP_DAYS: &str = "audit.keep_days";
pub(crate) const NAMESPACES_EXPLICIT: &str = "namespaces.explicit";

pub(crate) static KEYS: &[SettingKey] = &[
    SettingKey {
        name: LISTEN,
        variable: "PUNCTUAL_LISTEN",
        default: || "127.0.0.1:7450".to_owned(),
        about: "address and port of the API",
    },
    SettingKey {
        name: DATA,
        variable: "PUNCTUAL_DATA",
        default: || "./punctual-data".to_owned(),
        about: "directory of the embedded store",
    },
    // Empty: follows from `data`.
    SettingKey {
        name: STORE_URL,
        variable: "PUNCTUAL_STORE_URL",
        default: String::new,
        about: "durable store: sqlite://path, or mysql://user:password@host/database, several with commas",
    },
    SettingKey {
        name: PARTITIONS,
        variable: "PUNCTUAL_STORE_PARTITIONS",
        default: || "16".to_owned(),
        about: "hash slots of a mysql store, fixed when it is made",
    },
    SettingKey {
        name: WEAK_DURABILITY,
        variable: "PUNCTUAL_STORE_ALLOW_WEAK_DURABILITY",
        default: || "false".to_owned(),
        about: "true: run on a mysql server that may lose what it has acknowledged, and say so at each start",
    },
    // Empty: follows from `store.url`.
    SettingKey {
        name: HOT_URL,
        variable: "PUNCTUAL_HOT_URL",
        default: String::new,
        about: "near future: redis://, redis+cluster://, redis+sentinel://; with rediss instead of redis over TLS; empty: memory beside a file, and a mysql store alone",
    },
    SettingKey {
        name: HOT_PREFIX,
        variable: "PUNCTUAL_HOT_PREFIX",
        default: || "punctual".to_owned(),
        about: "before every key in Redis: engines of one prefix share a hot set",
    },
    // 0: `maxmemory` of the servers, where they have one, and half of their machines.
    SettingKey {
        name: HOT_MEMORY_MAX_MIB,
        variable: "PUNCTUAL_HOT_MEMORY_MAX_MIB",
        default: || "0".to_owned(),
        about: "memory that tasks due soon may fill, in all Redis servers together; near it the horizon shrinks, and at it what is due waits in the store behind its queue's backlog; 0: their maxmemory. Without Redis it is of no use: only what is due within ten seconds is in memory",
    },
    SettingKey {
        name: PUSH_QUEUES,
        variable: "PUNCTUAL_QUEUES_PUSH",
        default: String::new,
        about: "queues whose tasks are published to the bus, with commas: queue or namespace/queue",
    },
    SettingKey {
        name: PUSH_LEASE_MS,
        variable: "PUNCTUAL_QUEUES_PUSH_LEASE_MS",
        default: || Options::default().push_lease_ms.to_string(),
        about: "how long a subscriber has a task before another gets it, without a heartbeat",
    },
    SettingKey {
        name: HORIZON_MS,
        variable: "PUNCTUAL_ENGINE_HORIZON_MS",
        default: || Options::default().horizon_ms.to_string(),
        about: "how far ahead tasks are held in Redis",
    },
    SettingKey {
        name: LOOKAHEAD_MS,
        variable: "PUNCTUAL_ENGINE_LOOKAHEAD_MS",
        default: || Options::default().lookahead_ms.to_string(),
        about: "how far ahead of its time a task is drained into its owner's memory",
    },
    SettingKey {
        name: AHEAD_MS,
        variable: "PUNCTUAL_ENGINE_AHEAD_MS",
        default: || Options::default().ahead_ms.to_string(),
        about: "how far ahead of its time a task is leased for executors that wait, up to 200; 0: never",
    },
    SettingKey {
        name: CLOCK_BOUND_MS,
        variable: "PUNCTUAL_ENGINE_CLOCK_BOUND_MS",
        default: || Options::default().clock_bound_ms.to_string(),
        about: "how far the wall clock may stray from the steady clock and the database's before it is not followed",
    },
    SettingKey {
        name: SWEEP_INTERVAL_MS,
        variable: "PUNCTUAL_INTERVALS_SWEEP_MS",
        default: || Options::default().sweep_interval_ms.to_string(),
        about: "how often each engine looks for tasks that are overdue and were lost on their way, 100 to 60,000",
    },
    SettingKey {
        name: RECONCILE_INTERVAL_MS,
        variable: "PUNCTUAL_INTERVALS_RECONCILE_MS",
        default: || Options::default().reconcile_interval_ms.to_string(),
        about: "how often the places of limits are compared with the attempts in flight, 200 to 600,000; in full every 30 s",
    },
    SettingKey {
        name: COMPENSATE_INTERVAL_MS,
        variable: "PUNCTUAL_INTERVALS_COMPENSATE_MS",
        default: || Options::default().compensate_interval_ms.to_string(),
        about: "how often what could not be sent is brought back, 100 to 600,000",
    },
    SettingKey {
        name: LEASE_CHECK_INTERVAL_MS,
        variable: "PUNCTUAL_INTERVALS_LEASE_CHECK_MS",
        default: || Options::default().lease_check_interval_ms.to_string(),
        about: "how often ended leases are looked for, 50 to 10,000",
    },
    SettingKey {
        name: OVERDUE_LOOK_INTERVAL_MS,
        variable: "PUNCTUAL_INTERVALS_OVERDUE_LOOK_MS",
        default: || Options::default().overdue_look_interval_ms.to_string(),
        about: "how often all partitions are looked through for what should have fired long ago, 1,000 to 3,600,000",
    },
    SettingKey {
        name: RETIRE_INTERVAL_MS,
        variable: "PUNCTUAL_INTERVALS_RETENTION_MS",
        default: || Options::default().retire_interval_ms.to_string(),
        about: "how often it is looked what has been kept for long enough, 100 to 3,600,000",
    },
    SettingKey {
        name: TRIGGER_INTERVAL_MS,
        variable: "PUNCTUAL_INTERVALS_TRIGGER_MS",
        default: || PLAN_EVERY_MS.to_string(),
        about: "how often it is looked which schedules have something to do, 50 to 10,000",
    },
    SettingKey {
        name: BUCKETS_WIDTH_HOURS,
        variable: "PUNCTUAL_BUCKETS_WIDTH_HOURS",
        default: || "24".to_owned(),
        about: "how wide buckets of a mysql store are near the present at most, 1 to 168; a whole part of it where more than 10,000,000 tasks would come into one, by the measured rate; those of a new store are 4 h until the rate is known; `punctual shard plan` says what a rate needs from the start; the same for all engines",
    },
    SettingKey {
        name: BUCKETS_AHEAD_HOURS,
        variable: "PUNCTUAL_BUCKETS_AHEAD_HOURS",
        default: || "192".to_owned(),
        about: "how far ahead buckets are no wider than that, 24 to 8,760",
    },
    SettingKey {
        name: BUCKETS_CARRY_ROWS,
        variable: "PUNCTUAL_BUCKETS_CARRY_ROWS",
        default: || "100000".to_owned(),
        about: "of an old bucket, most tasks that are moved to the present so that it can go, 0 to 10,000,000",
    },
    SettingKey {
        name: PUSH_STREAMS,
        variable: "PUNCTUAL_QUEUES_STREAMS",
        default: || "1".to_owned(),
        about: "streams of a queue on the bus, 1 to 16: a Redis Cluster spreads them over its nodes; the same for all engines and subscribers",
    },
    SettingKey {
        name: SUCCEEDED_MS,
        variable: "PUNCTUAL_RETENTION_SUCCEEDED_MS",
        default: || Options::default().keep_succeeded_ms.to_string(),
        about: "how long a success answers repeated requests",
    },
    SettingKey {
        name: STOPPED_MS,
        variable: "PUNCTUAL_RETENTION_STOPPED_MS",
        default: || Options::default().keep_stopped_ms.to_string(),
        about: "how long a stopped task can be looked up",
    },
    SettingKey {
        name: CANCELLED_MS,
        variable: "PUNCTUAL_RETENTION_CANCELLED_MS",
        default: || Options::default().keep_cancelled_ms.to_string(),
        about: "how long a cancelled task can be looked up",
    },
    SettingKey {
        name: DEAD_MS,
        variable: "PUNCTUAL_RETENTION_DEAD_MS",
        default: || Options::default().keep_dead_ms.to_string(),
        about: "how long a dead task can be redriven",
    },
    SettingKey {
        name: SCHEDULE_RUNS_MS,
        variable: "PUNCTUAL_RETENTION_SCHEDULE_RUNS_MS",
        default: || punctual_schedules::Options::default().keep_runs_ms.to_string(),
        about: "how long the history of a schedule's runs is kept",
    },
    SettingKey {
        name: WORKFLOWS_MS,
        variable: "PUNCTUAL_RETENTION_WORKFLOWS_MS",
        default: || punctual_workflows::Options::default().keep_ms.to_string(),
        about: "how long a workflow that is over is kept",
    },
    SettingKey {
        name: BULK_MS,
        variable: "PUNCTUAL_RETENTION_BULK_MS",
        default: || punctual_bulk::Options::default().keep_ms.to_string(),
        about: "how long a bulk operation that has ended is kept",
    },
    SettingKey {
        name: EVENTS_MS,
        variable: "PUNCTUAL_RETENTION_EVENTS_MS",
        default: || punctual_cluster::Options::default().keep_events_ms.to_string(),
        about: "how long events of the cluster are kept; 10,000 of them at most",
    },
    // Empty: no traces are exported.
    SettingKey {
        name: TRACES_URL,
        variable: "PUNCTUAL_TRACES_OTLP_URL",
        default: String::new,
        about: "collector of OpenTelemetry traces, OTLP over HTTP, such as http://127.0.0.1:4318; empty: off",
    },
    SettingKey {
        name: TRACES_PERCENT,
        variable: "PUNCTUAL_TRACES_SAMPLE_PERCENT",
        default: || "100".to_owned(),
        about: "percentage of the traces sampled by callers that is exported",
    },
    SettingKey {
        name: TRACES_HEADERS,
        variable: "PUNCTUAL_TRACES_HEADERS",
        default: String::new,
        about: "headers for the collector of traces, such as authorization=Bearer TOKEN, several with commas",
    },
    SettingKey {
        name: TRACES_PROTOCOL,
        variable: "PUNCTUAL_TRACES_PROTOCOL",
        default: || "http/json".to_owned(),
        about: "how traces are written: http/json or http/protobuf",
    },
    SettingKey {
        name: TRACES_TIMEOUT_MS,
        variable: "PUNCTUAL_TRACES_TIMEOUT_MS",
        default: || "5000".to_owned(),
        about: "a collector of traces that answers no sooner has failed",
    },
    SettingKey {
        name: TRACES_SERVICE_NAME,
        variable: "PUNCTUAL_TRACES_SERVICE_NAME",
        default: || "punctual".to_owned(),
        about: "`service.name` in traces",
    },
    SettingKey {
        name: TRACES_RESOURCE,
        variable: "PUNCTUAL_TRACES_RESOURCE",
        default: String::new,
        about: "more attributes of the resource in traces, as OTEL_RESOURCE_ATTRIBUTES has them",
    },
    // Empty: none.
    SettingKey {
        name: INBOX_URL,
        variable: "PUNCTUAL_INBOX_URL",
        default: String::new,
        about: "users' own databases with an inbox, whose rows become tasks: NAME=mysql://user:password@host/database#table=TABLE&namespace=NAMESPACE, several with commas, or [[inbox]] tables in the file; the same for all engines",
    },
    // Empty: no archives; what is over is deleted.
    SettingKey {
        name: ARCHIVE_URL,
        variable: "PUNCTUAL_ARCHIVE_URL",
        default: String::new,
        about: "where tasks go before they are deleted: file:///directory or s3://bucket/prefix, the same for all engines",
    },
    SettingKey {
        name: ARCHIVE_AFTER_DAYS,
        variable: "PUNCTUAL_ARCHIVE_AFTER_DAYS",
        default: || "7".to_owned(),
        about: "how old a bucket of a mysql store is when it is archived and dropped",
    },
    // Empty: follows from `store.url` when that is a file; else none.
    SettingKey {
        name: PAYLOADS_URL,
        variable: "PUNCTUAL_PAYLOADS_URL",
        default: String::new,
        about: "where long payloads and results are: file:///directory or s3://bucket/prefix, the same for all engines; off: in the store",
    },
    SettingKey {
        name: PAYLOADS_INLINE_MAX_BYTES,
        variable: "PUNCTUAL_PAYLOADS_INLINE_MAX_BYTES",
        default: || "65536".to_owned(),
        about: "longest payload or result that is kept in the store, where longer ones have a place",
    },
    SettingKey {
        name: PAYLOADS_MAX_BYTES,
        variable: "PUNCTUAL_PAYLOADS_MAX_BYTES",
        default: || (16 << 20).to_string(),
        about: "longest payload or result where long ones have a place, unless limits.payload_max_bytes is set",
    },
    SettingKey {
        name: BATCH_BODY_MAX_BYTES,
        variable: "PUNCTUAL_LIMITS_BATCH_BODY_MAX_BYTES",
        default: || REQUEST_BYTES_DEFAULT.to_string(),
        about: "longest body of a request; unless set, long enough for one payload of payloads.max_bytes",
    },
    SettingKey {
        name: PAYLOAD_MAX_BYTES,
        variable: "PUNCTUAL_LIMITS_PAYLOAD_MAX_BYTES",
        default: || PAYLOAD_BYTES_DEFAULT.to_string(),
        about: "longest payload or result of a task",
    },
    SettingKey {
        name: INSERT_WAIT_MAX_MS,
        variable: "PUNCTUAL_LIMITS_INSERT_WAIT_MAX_MS",
        default: || Options::default().insert_wait_max_ms.to_string(),
        about: "an insert that may wait longer than this for the store is answered 429",
    },
    // Empty: beside the file, or in `data`.
    SettingKey {
        name: JOURNAL_DIRECTORY,
        variable: "PUNCTUAL_JOURNAL_DIRECTORY",
        default: String::new,
        about: "directory of outcomes whose database does not answer, on a disk that outlives the process; off: they are refused",
    },
    SettingKey {
        name: JOURNAL_MAX_MIB,
        variable: "PUNCTUAL_JOURNAL_MAX_MIB",
        default: || "64".to_owned(),
        about: "most of them that may wait; the file may be twice as large",
    },
    SettingKey {
        name: LOG_FILTER,
        variable: "PUNCTUAL_LOG_FILTER",
        default: || "info".to_owned(),
        about: "what is logged: error, warn, info, debug, trace, or per module",
    },
    SettingKey {
        name: LOG_FORMAT,
        variable: "PUNCTUAL_LOG_FORMAT",
        default: || "text".to_owned(),
        about: "text or json",
    },
    SettingKey {
        name: HOT_TLS_CA,
        variable: "PUNCTUAL_HOT_TLS_CA",
        default: String::new,
        about: "file of the authority that signed Redis's certificate; empty: those that this machine trusts",
    },
    SettingKey {
        name: HOT_TLS_CERT,
        variable: "PUNCTUAL_HOT_TLS_CERT",
        default: String::new,
        about: "file of the certificate that is shown to Redis, where it asks for one",
    },
    SettingKey {
        name: HOT_TLS_KEY,
        variable: "PUNCTUAL_HOT_TLS_KEY",
        default: String::new,
        about: "file of the key of hot.tls_cert",
    },
    // How the API is reached; 0 connections: as many as descriptors allow.
    SettingKey {
        name: LISTEN_PLAIN,
        variable: "PUNCTUAL_LISTEN_PLAIN",
        default: || "false".to_owned(),
        about: "true: plain HTTP also where others can listen on the network",
    },
    SettingKey {
        name: TRUSTED_PROXIES,
        variable: "PUNCTUAL_TRUSTED_PROXIES",
        default: String::new,
        about: "proxies whose X-Forwarded-For counts, with commas: addresses or blocks such as 10.0.0.0/8",
    },
    SettingKey {
        name: TLS_CERT,
        variable: "PUNCTUAL_TLS_CERT",
        default: String::new,
        about: "file of the server's certificate, PEM; read again when it changes",
    },
    SettingKey {
        name: TLS_KEY,
        variable: "PUNCTUAL_TLS_KEY",
        default: String::new,
        about: "file of its key, PEM",
    },
    SettingKey {
        name: TLS_CLIENT_CA,
        variable: "PUNCTUAL_TLS_CLIENT_CA",
        default: String::new,
        about: "file of authorities, PEM: every client must show a certificate of one of them",
    },
    SettingKey {
        name: HTTP_CONNECTIONS_MAX,
        variable: "PUNCTUAL_HTTP_CONNECTIONS_MAX",
        default: || "0".to_owned(),
        about: "connections at once; 0: as many as the descriptors of the process (ulimit -n) allow",
    },
    SettingKey {
        name: HTTP_CONNECTIONS_PER_ADDRESS_MAX,
        variable: "PUNCTUAL_HTTP_CONNECTIONS_PER_ADDRESS_MAX",
        default: || "0".to_owned(),
        about: "connections of one address, trusted proxies excepted; 0: half of all",
    },
    SettingKey {
        name: HTTP_LONG_POLLS_MAX,
        variable: "PUNCTUAL_HTTP_LONG_POLLS_MAX",
        default: || "0".to_owned(),
        about: "calls that wait for tasks at once; 0: three quarters of the connections",
    },
    SettingKey {
        name: HTTP_HEADER_TIMEOUT_MS,
        variable: "PUNCTUAL_HTTP_HEADER_TIMEOUT_MS",
        default: || ServerOptions::default().listener.header_timeout.as_millis().to_string(),
        about: "how long the head of a request may take, and the first request of a connection",
    },
    SettingKey {
        name: HTTP_BODY_TIMEOUT_MS,
        variable: "PUNCTUAL_HTTP_BODY_TIMEOUT_MS",
        default: || ServerOptions::default().body_timeout.as_millis().to_string(),
        about: "how long the body of a request may take",
    },
    SettingKey {
        name: HTTP_WRITE_TIMEOUT_MS,
        variable: "PUNCTUAL_HTTP_WRITE_TIMEOUT_MS",
        default: || ServerOptions::default().listener.write_timeout.as_millis().to_string(),
        about: "how long a caller may take for an answer, or for 64 KiB of it",
    },
    SettingKey {
        name: HTTP_IDLE_TIMEOUT_MS,
        variable: "PUNCTUAL_HTTP_IDLE_TIMEOUT_MS",
        default: || ServerOptions::default().listener.idle_timeout.as_millis().to_string(),
        about: "how long a connection may ask nothing",
    },
    SettingKey {
        name: HTTP_BODIES_MAX_MIB,
        variable: "PUNCTUAL_HTTP_BODIES_MAX_MIB",
        default: || (ServerOptions::default().bodies_max_bytes >> 20).to_string(),
        about: "memory for the bodies of all requests together",
    },
    // Empty: only tokens that are in the store, if there are any.
    SettingKey {
        name: AUTH_ADMIN_TOKEN,
        variable: "PUNCTUAL_AUTH_ADMIN_TOKEN",
        default: String::new,
        about: "an admin token that is not in the store, the same for all engines; never shown",
    },
    SettingKey {
        name: AUDIT_KEEP_DAYS,
        variable: "PUNCTUAL_AUDIT_KEEP_DAYS",
        default: || "365".to_owned(),
        about: "how long it is kept who changed what",
    },
    SettingKey {
        name: NAMESPACES_EXPLICIT,
        variable: "PUNCTUAL_NAMESPACES_EXPLICIT",
        default: || "false".to_owned(),
        about: "true: a namespace must be made before it is used, but for `default`; the same for all engines",
    },
];

pub(crate) fn find(name: &str) -> Option<&'static SettingKey> {
    KEYS.iter().find(|key| key.name == name)
}

/// The secret setting of which this names the file.
pub(crate) fn secret_of_file(name: &str) -> Option<&'static SettingKey> {
    find(name.strip_suffix(FILE_SUFFIX)?).filter(|key| key.is_secret())
}

/// The same, of a variable.
pub(crate) fn secret_of_variable(variable: &str) -> Option<&'static SettingKey> {
    let of = variable.strip_suffix(FILE_SUFFIX_OF_VARIABLES)?;
    KEYS.iter().find(|key| key.variable == of && key.is_secret())
}

/// The settings that there are, and before them the one that was probably meant.
pub(crate) fn known(given: &str) -> String {
    let names = || KEYS.iter().map(|key| key.name);
    let meant = punctual_protocol::nearest(given, names());
    let meant = meant.map(|name| format!("did you mean {name}? ")).unwrap_or_default();
    format!("{meant}there are {}", names().collect::<Vec<_>>().join(", "))
}
