//! The limits of the wire in one place, so that server, SDK and documentation have the same numbers. Only
//! bounds on single values; a deployment's limits (rates, slots) are configuration, not protocol.

/// Highest and lowest priority; 1 is served first.
pub const PRIORITY_MIN: u8 = 1;
pub const PRIORITY_MAX: u8 = 5;
pub const PRIORITY_DEFAULT: u8 = 3;

/// Attempts of one task, the first included.
pub const MAX_ATTEMPTS_MAX: u32 = 1_000;

/// Characters in a queue, kind, namespace or executor name; the alphabet is `A-Z a-z 0-9 . _ : -`.
pub const NAME_MAX_CHARS: usize = 128;
pub const DEFAULT_NAMESPACE: &str = "default";
pub const DEFAULT_KIND: &str = "default";
pub const DEFAULT_EXECUTOR: &str = "anonymous";

/// Levels of nesting in a payload, a result or a progress.
pub const JSON_DEPTH_MAX: usize = 128;

/// Labels of one task; characters of a key and of a value.
pub const LABELS_MAX: usize = 32;
pub const LABEL_KEY_MAX_CHARS: usize = 128;
pub const LABEL_VALUE_MAX_CHARS: usize = 256;

/// Labels that a queue may index: each costs an entry per task.
pub const INDEXED_LABELS_MAX: usize = 8;

/// The maximum length of a task's key, in bytes of UTF-8.
pub const KEY_MAX_BYTES: usize = 128;
pub const TASK_NAME_MAX_CHARS: usize = 256;
pub const CONCURRENCY_KEY_MAX_CHARS: usize = 256;
pub const HANDLER_VERSIONS_MAX_CHARS: usize = 128;

/// The maximum number of kinds, and of queues, that an executor declares, and of characters in a version.
pub const EXECUTOR_KINDS_MAX: usize = 1_000;
pub const VERSION_MAX_CHARS: usize = 64;
pub const HOST_MAX_CHARS: usize = 253;

/// Log lines of one lease in one heartbeat, and of one outcome; characters of a line and of its level.
pub const LOG_LINES_MAX: usize = 100;
pub const LOG_TEXT_MAX_CHARS: usize = 4_096;
pub const LOG_LEVEL_MAX_CHARS: usize = 16;

/// Highest limit of slots and rates, and cap of waiting tasks.
pub const LIMIT_MAX: u32 = 1_000_000;
pub const WAITING_MAX: u64 = 1_000_000_000_000;
/// 1 PiB.
pub const PAYLOAD_BYTES_MAX: u64 = 1 << 50;
/// Highest weight of a namespace or queue when shares are made.
pub const WEIGHT_MAX: u32 = 1_000;
/// Shortest and longest time from one scan of a queue to the next: a scan reads all partitions; a day.
pub const SCAN_INTERVAL_MIN_MS: i64 = 100;
pub const SCAN_INTERVAL_MAX_MS: i64 = 86_400_000;
/// Attempts in flight of a queue that is scanned: each is written to one row that all engines share.
pub const SCAN_CONCURRENCY_MAX: u32 = 1_000;
/// Due tasks that a scan reads from one partition at a time.
pub const SCAN_BATCH_MAX: u32 = 1_000;

/// Characters of a pause's reason, and of its author.
pub const PAUSE_REASON_MAX_CHARS: usize = 1_000;

/// Last instant that can be written, 9999-12-31T23:59:59.999Z, in epoch milliseconds.
pub const INSTANT_MAX_MS: i64 = 253_402_300_799_999;

/// The first instant that `execute_at_ms` may name, 2001-01-01T00:00:00Z: a smaller number was meant in
/// seconds.
pub const EXECUTE_AT_MS_MIN: i64 = 978_307_200_000;

/// Longest `timeout_ms`, `deadline_ms` and retry delay: ten years.
pub const DURATION_MAX_MS: i64 = 315_576_000_000;

/// Entries of a retry policy of the `list` kind.
pub const RETRY_DELAYS_MAX: usize = 100;
pub const RETRY_FACTOR_MAX: f64 = 100.0;
/// 365 days.
pub const RETRY_DELAY_MAX_MS: i64 = 31_536_000_000;
/// The defaults of an exponential policy.
pub const RETRY_FACTOR_DEFAULT: f64 = 2.0;
pub const RETRY_MAX_DELAY_MS_DEFAULT: i64 = 600_000;
pub const RETRY_JITTER_DEFAULT: f64 = 0.2;

/// Tasks of one batch insert, and outcomes or heartbeats of one report.
pub const BATCH_MAX: usize = 10_000;

/// Tasks of one lease call.
pub const LEASE_MAX: u32 = 10_000;
/// Queues that one lease waits for.
pub const LEASE_QUEUES_MAX: usize = 16;
/// Longest long poll, in milliseconds.
pub const WAIT_MS_MAX: u64 = 60_000;
pub const LEASE_MS_MIN: u64 = 100;
pub const LEASE_MS_MAX: u64 = 86_400_000;
pub const LEASE_MS_DEFAULT: u64 = 30_000;

/// Characters of a log filter, and the longest time of a temporary one.
pub const LOG_FILTER_MAX_CHARS: usize = 1_024;
pub const LOG_FILTER_FOR_MS_MAX: u64 = 86_400_000;

/// The maximum number of characters of an outcome's `status_msg` that clients send. At most 1 MiB, which is stored.
pub const STATUS_MSG_MAX_CHARS: usize = 262_144;

/// Characters of a text that is searched in errors.
pub const ERROR_TEXT_MAX_CHARS: usize = 1_024;

/// Characters of the name of an access token, patterns of one, and how long its secret before is good after a rotation.
pub const TOKEN_NAME_MAX_CHARS: usize = 128;
pub const TOKEN_PATTERNS_MAX: usize = 100;
pub const TOKEN_OVERLAP_MS_DEFAULT: i64 = 3_600_000;
/// The maximum time in milliseconds for which requests without a token are accepted after the first token: 30 days.
pub const TOKEN_GRACE_MAX_MS: i64 = 30 * 24 * 60 * 60 * 1_000;

/// Items of one page of a list.
pub const PAGE_MAX: u32 = 1_000;
pub const PAGE_DEFAULT: u32 = 100;

/// Characters of an `Idempotency-Key`.
pub const IDEMPOTENCY_KEY_MAX_CHARS: usize = 255;

/// Default bounds of sizes; a server may be configured otherwise.
pub const PAYLOAD_BYTES_DEFAULT: usize = 1 << 20;
pub const REQUEST_BYTES_DEFAULT: usize = 16 << 20;

/// The maximum length of a receiver's address.
pub const WEBHOOK_URL_MAX_BYTES: usize = 2_048;
/// The maximum number of further headers of a receiver.
pub const WEBHOOK_HEADERS_MAX: usize = 20;
/// The maximum length of the value of such a header.
pub const WEBHOOK_HEADER_VALUE_MAX_BYTES: usize = 4_096;
/// The bounds of the time of one delivery.
pub const WEBHOOK_TIMEOUT_MIN_MS: i64 = 100;
pub const WEBHOOK_TIMEOUT_MAX_MS: i64 = 600_000;
/// The maximum number of deliveries of one queue that an engine makes at one time.
pub const WEBHOOK_CONCURRENCY_MAX: u32 = 1_000;
