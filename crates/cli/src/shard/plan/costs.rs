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
/// Of an entry in `due` and its key in `body`, without what is in the body: 200,000 over 64 partitions with bodies of
/// 250 bytes took 459 bytes each, Redis 7.0.
pub(super) const REDIS_ENTRY_BYTES: f64 = 209.0;
/// A body's names, fences and times around its payload, MessagePack.
pub(super) const REDIS_BODY_BYTES: f64 = 120.0;
/// Copy on write while the append-only file is rewritten, and fragments.
pub(super) const REDIS_HEADROOM: f64 = 1.5;

/// Microseconds of a database's processor a task: insert with registry, claim, hand-over, outcome. A bare pipeline of
/// these statements in batches of 1,000 took 20, MariaDB 10.11 durable; a product reaches 65 % of a bare pipeline.
pub(super) const MYSQL_US: f64 = 31.0;
/// Of Redis's one thread: ZADD and HSET 4.9, pop with HMGET and HDEL 3.1, a stream's entry 3.2, guard 3.0, in batches
/// of 1,000; the same 65 %.
pub(super) const REDIS_US: f64 = 22.0;
/// Of an engine with its API: docs/figures.md, 131 at 10,000/s, of which 26 % (tokio 23, the wheel 3) are not SQLite's.
pub(super) const ENGINE_US: f64 = 34.0;

/// Of a processor, at the peak. Above it, waiting grows faster than work.
pub(super) const BUSY_MOST: f64 = 0.6;
/// Of a disk.
pub(super) const DISK_FULL_MOST: f64 = 0.7;
/// Of one partition, per second: each of its steps is a round trip or a few, and one owner takes them in order.
pub(super) const PARTITION_RATE: f64 = 500.0;

#[cfg(test)]
pub(super) const ALL: [(&str, f64); 12] = [
    ("TASK_ROW_BYTES", TASK_ROW_BYTES),
    ("PAYLOAD_FACTOR", PAYLOAD_FACTOR),
    ("REGISTRY_ROW_BYTES", REGISTRY_ROW_BYTES),
    ("REDIS_ENTRY_BYTES", REDIS_ENTRY_BYTES),
    ("REDIS_BODY_BYTES", REDIS_BODY_BYTES),
    ("REDIS_HEADROOM", REDIS_HEADROOM),
    ("MYSQL_US", MYSQL_US),
    ("REDIS_US", REDIS_US),
    ("ENGINE_US", ENGINE_US),
    ("BUSY_MOST", BUSY_MOST),
    ("DISK_FULL_MOST", DISK_FULL_MOST),
    ("PARTITION_RATE", PARTITION_RATE),
];
