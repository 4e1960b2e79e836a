//! The rows: a name, what is measured, and the bar. The bars are those of docs/figures.md; what timed tests once
//! asserted follows them.

use crate::outage::cause::Cause;

pub(super) struct BarRow {
    /// The bar's name, and after a hyphen which of its rows it is.
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) measure: Measure,
}

impl BarRow {
    /// True for the row's own name, and for that of its bar.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.name == name || self.name.split_once('-').is_some_and(|(bar, _)| bar == name)
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Measure {
    Wheel,
    Sustained {
        server: &'static str,
        share: f64,
    },
    Burst {
        server: &'static str,
        share: f64,
    },
    /// p50, p99 and p99.9.
    Lateness {
        server: &'static str,
        rate: u64,
        bars_ms: [Option<f64>; 3],
    },
    TwoOverOne {
        rate: u64,
        bar: f64,
    },
    Inserts {
        is_single: bool,
        share: f64,
    },
    EngineMemory,
    RedisMemory,
    Idle,
    Trickle,
    Flat {
        servers: [[&'static str; 2]; 2],
    },
    Pending,
    EmbeddedSustained,
    EmbeddedBurst,
    /// A burst in a queue with a limit and priorities, over one in a plain queue.
    LimitedBurst {
        server: &'static str,
    },
    Cost {
        server: &'static str,
        ahead: &'static str,
        bar: f64,
    },
    Overload {
        server: &'static str,
    },
    Push,
    Takeover,
    EngineStopped,
    ResumedElsewhere,
    RevokedElsewhere,
    Outage {
        what: Cause,
        lasts: &'static str,
        bar_s: f64,
    },
    Flood {
        server: &'static str,
    },
    Chaos {
        words: &'static str,
    },
}

/// Servers, in the words of the command line.
pub(super) const EMBEDDED: &str = "--spawn";
pub(super) const ONE: &str = "--spawn --store mysql --hot redis";
pub(super) const TWO: &str = "--spawn --store mysql --hot redis --engines 2";
const FOUR: &str = "--spawn --store mysql --hot redis --engines 4 --databases 2";

const fn row(name: &'static str, what: &'static str, measure: Measure) -> BarRow {
    BarRow { name, what, measure }
}

pub(super) const ROWS: &[BarRow] = &[
    row("P1", "wheel at 10 million timers, one process, best of three", Measure::Wheel),
    row(
        "P2-one",
        "sustained with p99 <= 100 ms, share of the bare rate, 10 s (bar: 60 s): one engine",
        Measure::Sustained { server: ONE, share: 0.45 },
    ),
    row(
        "P2-two",
        "sustained with p99 <= 100 ms, share of the bare rate, 10 s (bar: 60 s): two engines",
        Measure::Sustained { server: TWO, share: 0.42 },
    ),
    row(
        "P3-one",
        "100,000 due at one instant, share of the bare rate: one engine",
        Measure::Burst { server: ONE, share: 0.7 },
    ),
    row(
        "P3-two",
        "100,000 due at one instant, share of the bare rate: two engines",
        Measure::Burst { server: TWO, share: 0.65 },
    ),
    row(
        "P3-four",
        "100,000 due at one instant, share of the bare rate: four engines, two databases",
        Measure::Burst { server: FOUR, share: 0.6 },
    ),
    row(
        "P4",
        "lateness at 1,000/s, two engines; bars grow with the bare parts' CPU a task over 23 us",
        Measure::Lateness { server: TWO, rate: 1_000, bars_ms: [Some(0.4), Some(2.0), Some(5.0)] },
    ),
    row(
        "P4-two",
        "lateness p99 at 1,000/s: two engines over one, after 1 ms is taken off",
        Measure::TwoOverOne { rate: 1_000, bar: 1.5 },
    ),
    row(
        "P5",
        "lateness at 5,000/s, two engines; bars as in P4",
        Measure::Lateness { server: TWO, rate: 5_000, bars_ms: [Some(0.8), Some(5.0), Some(15.0)] },
    ),
    row(
        "P6-batches",
        "durable inserts, 1,000 a call, share of bare inserts: one engine",
        Measure::Inserts { is_single: false, share: 0.75 },
    ),
    row(
        "P6-singles",
        "durable inserts, one a call from 64 connections, over bare ones (bar: 20,000/s where those are 16,000/s)",
        Measure::Inserts { is_single: true, share: 1.25 },
    ),
    row(
        "P8-memory",
        "embedded engine, a million pending (500,000 measured, times two)",
        Measure::EngineMemory,
    ),
    row("P8-redis", "Redis a preloaded task, 200,000 of them", Measure::RedisMemory),
    row(
        "P9-nothing",
        "an engine, 300,000 tasks a week away (bar: a million), nothing due: of a core",
        Measure::Idle,
    ),
    row("P9-trickle", "an engine, 20 tasks/s: of a core", Measure::Trickle),
    row(
        "P10-partitions",
        "CPU a task at 2,000/s: 64 partitions and 1, the dearer over the cheaper",
        Measure::Flat { servers: [[ONE, "--partitions 1"], [ONE, "--partitions 64"]] },
    ),
    row(
        "P10-databases",
        "CPU a task at 2,000/s: four databases and one, the dearer over the cheaper",
        Measure::Flat { servers: [[ONE, "--databases 1"], [ONE, "--databases 4"]] },
    ),
    row(
        "P10-pending",
        "CPU a task at 2,000/s, two databases: --pending tasks that wait (bar: 100 million) over none",
        Measure::Pending,
    ),
    row(
        "P12-sustained",
        "embedded, as P2 (bar: 30,000/s where the bare parts do 81,400/s)",
        Measure::Sustained { server: EMBEDDED, share: 0.37 },
    ),
    row(
        "P12-over-mysql",
        "embedded over one engine on MySQL: highest rate held for 10 s with p99 <= 100 ms",
        Measure::EmbeddedSustained,
    ),
    row(
        "P12-lateness",
        "embedded at 1,000/s; bar as in P4",
        Measure::Lateness { server: EMBEDDED, rate: 1_000, bars_ms: [None, Some(1.0), None] },
    ),
    row(
        "limited-one",
        "50,000 at one instant: a queue with 1,000 slots and five priorities over a plain one; one engine",
        Measure::LimitedBurst { server: ONE },
    ),
    row(
        "limited-two",
        "50,000 at one instant: a queue with 1,000 slots and five priorities over a plain one; two engines",
        Measure::LimitedBurst { server: TWO },
    ),
    row("P12-burst", "50,000 at one instant: embedded over one engine on MySQL", Measure::EmbeddedBurst),
    row(
        "P13-one",
        "CPU a task over the bare parts', at the highest rate held up to 10,000/s: one engine",
        Measure::Cost { server: ONE, ahead: "3s", bar: 2.5 },
    ),
    row(
        "P13-ahead",
        "CPU a task over the bare parts', likewise: one engine, inserted 20 s ahead (bar: 60 s)",
        Measure::Cost { server: ONE, ahead: "20s", bar: 2.7 },
    ),
    row(
        "P13-two",
        "CPU a task over the bare parts', likewise: two engines",
        Measure::Cost { server: TWO, ahead: "3s", bar: 2.8 },
    ),
    row(
        "P13-four",
        "CPU a task over the bare parts', likewise: four engines, two databases",
        Measure::Cost { server: FOUR, ahead: "3s", bar: 3.2 },
    ),
    row("P14-one", "offered twice what is held, for 6 s: one engine", Measure::Overload { server: ONE }),
    row("P14-two", "offered twice what is held, for 6 s: two engines", Measure::Overload { server: TWO }),
    row(
        "P14-four",
        "offered twice what is held, for 6 s: four engines, two databases",
        Measure::Overload { server: FOUR },
    ),
    row("push", "CPU a task at 2,000/s: push over streams over pull", Measure::Push),
    row("P11", "an engine of two killed at 500/s, leases of 3 s: the latest task", Measure::Takeover),
    row(
        "redis-killed",
        "Redis killed for 10 s, two engines: the latest task",
        Measure::Outage { what: Cause::RedisKill, lasts: "10s", bar_s: 1.0 },
    ),
    row(
        "redis-frozen",
        "Redis frozen for 8 s: the latest task",
        Measure::Outage { what: Cause::RedisPause, lasts: "8s", bar_s: 1.0 },
    ),
    row(
        "redis-flushed",
        "Redis flushed: the latest task",
        Measure::Outage { what: Cause::RedisFlush, lasts: "0s", bar_s: 1.0 },
    ),
    row(
        "redis-emptied",
        "Redis killed and started again empty: the latest task",
        Measure::Outage { what: Cause::RedisEmpty, lasts: "0s", bar_s: 1.0 },
    ),
    row(
        "mysql-killed",
        "MySQL killed for 3 s: the latest task, beyond the outage",
        Measure::Outage { what: Cause::MysqlKill, lasts: "3s", bar_s: 5.0 },
    ),
    row(
        "redis-stale",
        "Redis started again on a copy that is 5 s old: the latest task",
        Measure::Outage { what: Cause::RedisStale, lasts: "5s", bar_s: 1.0 },
    ),
    row(
        "redis-full",
        "Redis full for 10 s: the latest task",
        Measure::Outage { what: Cause::RedisFull, lasts: "10s", bar_s: 1.0 },
    ),
    row(
        "redis-silent",
        "all connections to Redis fall silent, new ones work: the latest task",
        Measure::Outage { what: Cause::RedisSilent, lasts: "0s", bar_s: 1.0 },
    ),
    row(
        "redis-cut-one",
        "one engine of two reaches no Redis for 10 s: the latest task",
        Measure::Outage { what: Cause::RedisCutOne, lasts: "10s", bar_s: 1.0 },
    ),
    row(
        "mysql-silent",
        "all connections to MySQL fall silent, new ones work: the latest task",
        Measure::Outage { what: Cause::MysqlSilent, lasts: "0s", bar_s: 12.0 },
    ),
    row(
        "engine-stopped",
        "an engine of two stopped by SIGTERM at 500/s: the latest task",
        Measure::EngineStopped,
    ),
    row(
        "resumed-elsewhere",
        "a queue resumed at one engine: an executor at the other has its task; the slowest of 10",
        Measure::ResumedElsewhere,
    ),
    row(
        "revoked-elsewhere",
        "a token revoked at one engine: the other refuses it; the slowest of 10",
        Measure::RevokedElsewhere,
    ),
    row(
        "flood-embedded",
        "one tenant at 10 times its rate: the other's p99, flooded over in peace; embedded",
        Measure::Flood { server: EMBEDDED },
    ),
    row(
        "flood-mysql",
        "one tenant at 10 times its rate: the other's p99, flooded over in peace; MySQL and Redis",
        Measure::Flood { server: ONE },
    ),
    row(
        "chaos-embedded",
        "chaos for 24 s, faults of at most 5 s: the slowest recovery; embedded, seed 5",
        Measure::Chaos { words: "--seed 5" },
    ),
    row(
        "chaos-mysql",
        "chaos for 24 s, faults of at most 5 s: the slowest recovery; MySQL, three engines, seed 3",
        Measure::Chaos { words: "--seed 3 --store mysql" },
    ),
];
