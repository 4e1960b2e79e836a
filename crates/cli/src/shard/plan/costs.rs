//! The costs of a task, each with its source. All on 2 virtual cores at 2.6 GHz with slow memory: other machines
//! differ by their clock, and a plan is as good as these. `docs/capacity.md` lists them for readers, and a test
//! compares.

/// The bytes of a row of `task` with an empty payload and five lines of history, on pages as full as inserts in
/// another order than that of their times leave them: 200,000 rows with payloads of 200 bytes took 912 bytes each,
/// 60,000 with payloads of 1,200 took 2,604; MariaDB 10.11.
pub(super) const TASK_ROW_BYTES: f64 = 572.0;
/// The bytes per byte of payload, on the same pages.
pub(super) const PAYLOAD_FACTOR: f64 = 1.7;
/// The bytes of an entry of the registry with its index; the same measurement.
pub(super) const REGISTRY_ROW_BYTES: f64 = 127.0;
/// The bytes of a task in Redis with an empty payload and a trace: `redis_bench` (P8); 555 bytes with a payload of
/// 200.
pub(super) const REDIS_ENTRY_BYTES: f64 = 355.0;
/// Longer payloads stay in the store (`contract::Ask`).
pub(super) const REDIS_PAYLOAD_MOST: f64 = 1_024.0;
/// Copy on write while the append-only file is rewritten, and fragments.
pub(super) const REDIS_HEADROOM: f64 = 1.5;

/// The processor time of a task at thousands a second, and at low rates, where each step finds less to do at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// Microseconds a task, where thousands come a second.
    pub(super) us: f64,
    /// The same where few come, each alone.
    pub(super) alone_us: f64,
    /// Cores that this grows to, before `us` is more.
    pub(super) least_cores: f64,
}

/// The cost of databases, from insert to outcome, with one engine: measured on 0.1.0, 10,000/s for 60 s (P2), 97 to
/// 109. For low rates: docs/capacity.md.
pub(super) const MYSQL: Cost = Cost { us: 109.0, alone_us: 616.0, least_cores: 0.5 };
/// The cost of databases with several engines: tasks due soon pass through Redis then, and batches are smaller. The
/// same build, 8,333/s with four engines and two databases: 154 and 164.
pub(super) const MYSQL_SEVERAL: Cost = Cost { us: 164.0, alone_us: 955.0, least_cores: 0.84 };
/// The cost of a single engine with its API; the same runs as `MYSQL`, 56 to 59.
pub(super) const ENGINE: Cost = Cost { us: 59.0, alone_us: 653.0, least_cores: 0.65 };
/// The cost of one of several engines. On a faster machine four took 73 where one took 43, in one hour: 1.7 times as
/// much.
pub(super) const ENGINE_SEVERAL: Cost = Cost { us: 100.0, alone_us: 811.0, least_cores: 0.75 };
/// The cost of Redis's one thread, if tasks wait there before they fire: measured on 0.1.0, 10,000/s, 27.5 to 30;
/// 8,000/s (docs/capacity.md) 30 and 33.
pub(super) const REDIS: Cost = Cost { us: 33.0, alone_us: 147.0, least_cores: 0.19 };
/// The additional cost of a task on the bus. Not measured end to end: an entry of a stream 3.2 and the guard 3.0 in
/// batches of 1,000, and a product reaches 65 % of such parts.
pub(super) const REDIS_PUSH_US: f64 = 9.5;

/// The maximum load of a processor, at the peak. Above it, waiting grows faster than work.
pub(super) const BUSY_MOST: f64 = 0.6;
/// The maximum fill level of a disk.
pub(super) const DISK_FULL_MOST: f64 = 0.7;
/// The maximum rate of one partition, per second: each of its steps is a round trip or a few, and one owner performs
/// them in order.
pub(super) const PARTITION_RATE: f64 = 500.0;

/// The maximum number of buckets of one database, half of MySQL's limit: each is a table of its own to open and to
/// lock.
pub(super) const BUCKETS_MOST: f64 = 4_096.0;

#[cfg(test)]
pub(super) const ALL: [(&str, f64); 21] = [
    ("TASK_ROW_BYTES", TASK_ROW_BYTES),
    ("PAYLOAD_FACTOR", PAYLOAD_FACTOR),
    ("REGISTRY_ROW_BYTES", REGISTRY_ROW_BYTES),
    ("REDIS_ENTRY_BYTES", REDIS_ENTRY_BYTES),
    ("REDIS_PAYLOAD_MOST", REDIS_PAYLOAD_MOST),
    ("REDIS_HEADROOM", REDIS_HEADROOM),
    ("MYSQL", MYSQL.us),
    ("MYSQL, few", MYSQL.alone_us),
    ("MYSQL_SEVERAL", MYSQL_SEVERAL.us),
    ("MYSQL_SEVERAL, few", MYSQL_SEVERAL.alone_us),
    ("ENGINE", ENGINE.us),
    ("ENGINE, few", ENGINE.alone_us),
    ("ENGINE_SEVERAL", ENGINE_SEVERAL.us),
    ("ENGINE_SEVERAL, few", ENGINE_SEVERAL.alone_us),
    ("REDIS", REDIS.us),
    ("REDIS, few", REDIS.alone_us),
    ("REDIS_PUSH_US", REDIS_PUSH_US),
    ("BUSY_MOST", BUSY_MOST),
    ("DISK_FULL_MOST", DISK_FULL_MOST),
    ("PARTITION_RATE", PARTITION_RATE),
    ("BUCKETS_MOST", BUCKETS_MOST),
];
