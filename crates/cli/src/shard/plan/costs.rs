//! What a task costs, each with its source. All on 2 virtual cores at 2.6 GHz with slow memory: other machines differ by
//! their clock, and a plan is as good as these. `docs/capacity.md` lists them for readers, held by a test.

/// Of a row of `task` with an empty payload and five lines of history, on pages as full as inserts in another order
/// than that of their times leave them: 200,000 rows with payloads of 200 bytes took 912 bytes each, 60,000 with
/// payloads of 1,200 took 2,604; MariaDB 10.11.
pub(super) const TASK_ROW_BYTES: f64 = 572.0;
/// Of a byte of payload, on the same pages.
pub(super) const PAYLOAD_FACTOR: f64 = 1.7;
/// Of an entry of the registry with its index; the same measurement.
pub(super) const REGISTRY_ROW_BYTES: f64 = 127.0;
/// Of a task in Redis, whatever its payload, which stays in the store: docs/figures-0.1.0.md, `redis_bench` (P8).
pub(super) const REDIS_ENTRY_BYTES: f64 = 234.0;
/// Copy on write while the append-only file is rewritten, and fragments.
pub(super) const REDIS_HEADROOM: f64 = 1.5;

/// Microseconds of a database's processor a task, from insert to outcome, with one engine: docs/figures-0.1.0.md, 10,000/s for 60 s
/// (P2), 97 to 109.
pub(super) const MYSQL_US: f64 = 109.0;
/// With several: what is due soon goes by way of Redis then, and batches are smaller. The same page, 8,333/s with four engines
/// and two databases: 154 and 164.
pub(super) const MYSQL_SEVERAL_US: f64 = 164.0;
/// Of an engine with its API, where it is the only one; the same runs as `MYSQL_US`, 56 to 59.
pub(super) const ENGINE_US: f64 = 59.0;
/// Where it is one of several. On a faster machine four took 73 where one took 43, in one hour: 1.7 times as much.
pub(super) const ENGINE_SEVERAL_US: f64 = 100.0;
/// Of Redis's one thread, where tasks wait there before they fire: docs/figures-0.1.0.md, 10,000/s, 27.5 to 30.
pub(super) const REDIS_US: f64 = 30.0;
/// What a task on the bus takes besides. Not measured in a whole: an entry of a stream 3.2 and the guard 3.0 in batches of 1,000,
/// and a product reaches 65 % of such parts.
pub(super) const REDIS_PUSH_US: f64 = 9.5;

/// Of a processor, at the peak. Above it, waiting grows faster than work.
pub(super) const BUSY_MOST: f64 = 0.6;
/// Of a disk.
pub(super) const DISK_FULL_MOST: f64 = 0.7;
/// Of one partition, per second: each of its steps is a round trip or a few, and one owner takes them in order.
pub(super) const PARTITION_RATE: f64 = 500.0;

/// Of one database, half of what MySQL takes: each is a table of its own to open and to lock.
pub(super) const BUCKETS_MOST: f64 = 4_096.0;

#[cfg(test)]
pub(super) const ALL: [(&str, f64); 15] = [
    ("TASK_ROW_BYTES", TASK_ROW_BYTES),
    ("PAYLOAD_FACTOR", PAYLOAD_FACTOR),
    ("REGISTRY_ROW_BYTES", REGISTRY_ROW_BYTES),
    ("REDIS_ENTRY_BYTES", REDIS_ENTRY_BYTES),
    ("REDIS_HEADROOM", REDIS_HEADROOM),
    ("MYSQL_US", MYSQL_US),
    ("MYSQL_SEVERAL_US", MYSQL_SEVERAL_US),
    ("ENGINE_US", ENGINE_US),
    ("ENGINE_SEVERAL_US", ENGINE_SEVERAL_US),
    ("REDIS_US", REDIS_US),
    ("REDIS_PUSH_US", REDIS_PUSH_US),
    ("BUSY_MOST", BUSY_MOST),
    ("DISK_FULL_MOST", DISK_FULL_MOST),
    ("PARTITION_RATE", PARTITION_RATE),
    ("BUCKETS_MOST", BUCKETS_MOST),
];
