//! Computes the required resources of a load. Pure; every step is one line of the table that is printed, with its
//! reason.

use super::{
    DAY_S,
    costs::{
        BUCKETS_MOST, BUSY_MOST, Cost, DISK_FULL_MOST, ENGINE, ENGINE_SEVERAL, MYSQL, MYSQL_SEVERAL,
        PARTITION_RATE, PAYLOAD_FACTOR, REDIS, REDIS_ENTRY_BYTES, REDIS_HEADROOM, REDIS_PAYLOAD_MOST,
        REDIS_PUSH_US, REGISTRY_ROW_BYTES, TASK_ROW_BYTES,
    },
    delay::Delay,
};
use crate::{
    config::keys::{
        ARCHIVE_AFTER_DAYS, BUCKETS_AHEAD_HOURS, BUCKETS_CARRY_ROWS, BUCKETS_WIDTH_HOURS, HORIZON_MS,
        HOT_MEMORY_MAX_MIB, PARTITIONS, PUSH_STREAMS,
    },
    output::count,
};
use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub(super) struct Load {
    /// Tasks per second, on average.
    pub(super) rate: f64,
    /// The busiest hour against the average.
    pub(super) peak: f64,
    pub(super) delay: Delay,
    pub(super) payload_bytes: u32,
    /// Full days, like `archive.after_days`.
    pub(super) keep_days: u32,
    pub(super) horizon_s: f64,
    /// The maximum number of rows of one bucket.
    pub(super) row_limit: u64,
    /// The number of cores of each machine.
    pub(super) cores: u32,
    /// `None` computes as many as the peak needs, and one more.
    pub(super) engines: Option<u64>,
    pub(super) mode: Mode,
}

/// The delivery mode of tasks to executors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum Mode {
    /// Executors call an engine
    Pull,
    /// Executors subscribe to the bus
    Push,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Need {
    peak_rate: f64,
    pending_rows: u64,
    kept_rows: u64,
    databases: u64,
    bucket_width_hours: u64,
    buckets_ahead_hours: u64,
    rows_per_bucket: u64,
    bucket_carry_rows: u64,
    buckets_per_database: u64,
    partitions: u64,
    disk_bytes_per_database: u64,
    redis_entries: u64,
    redis_bytes: u64,
    redis_masters: u64,
    engines: u64,
    database_cores_busy: f64,
    engine_cores_busy: f64,
    redis_cores_busy: f64,
}

const HOUR_S: f64 = 3_600.0;
/// Widths that divide a day or are full days, narrowest first.
const WIDTHS_HOURS: [u64; 11] = [1, 2, 3, 4, 6, 8, 12, 24, 48, 72, 168];
/// The default of `buckets.ahead_hours`, and its maximum.
const AHEAD_HOURS: u64 = 192;
const AHEAD_HOURS_MAX: u64 = 8_760;
/// The default of `buckets.carry_rows`, and its maximum: a hundredth of a bucket at the row limit.
const CARRY_ROWS: u64 = 100_000;
const CARRY_ROWS_MAX: u64 = 10_000_000;
const CARRIED_PART: u64 = 100;
/// The maximum of `queues.streams`.
const STREAMS_MAX: u64 = 16;
const MIB: u64 = 1 << 20;
/// The minimum for Redis, whatever the load: it stores more than tasks.
const HOT_MIB_LEAST: u64 = 256;
/// The maximum of `hot.memory_max_mib`.
const HOT_MIB_MOST: u64 = 16 << 20;
const PARTITIONS_LEAST: u64 = 16;
/// The maximum of `store.partitions`: a busier store has more tasks in each.
const PARTITIONS_MOST: u64 = 1_024;
/// One owner moves partitions one by one; fewer than this for each engine share the work unevenly.
const PARTITIONS_PER_ENGINE: u64 = 8;
const MICRO: f64 = 1e-6;

impl Load {
    fn peak_rate(&self) -> f64 {
        self.rate * self.peak
    }

    /// Processors that do nothing else at the peak.
    fn cores_busy(&self, cost: Cost) -> f64 {
        let few = (self.peak_rate() * cost.alone_us * MICRO).min(cost.least_cores);
        few.max(self.peak_rate() * cost.us * MICRO)
    }

    fn us_per_task(&self, cost: Cost) -> f64 {
        self.cores_busy(cost) / (self.peak_rate() * MICRO)
    }

    fn machines(&self, cost: Cost) -> u64 {
        up(self.cores_busy(cost) / (f64::from(self.cores) * BUSY_MOST)).max(1)
    }

    fn is_one_engine(&self) -> bool {
        self.engines == Some(1)
    }

    fn mysql(&self) -> Cost {
        if self.is_one_engine() { MYSQL } else { MYSQL_SEVERAL }
    }

    fn engine(&self) -> Cost {
        if self.is_one_engine() { ENGINE } else { ENGINE_SEVERAL }
    }

    fn redis(&self) -> Cost {
        if self.mode == Mode::Push { Cost { us: REDIS.us + REDIS_PUSH_US, ..REDIS } } else { REDIS }
    }

    /// Enough for the peak, of which none may fail.
    pub(super) fn engines_least(&self) -> u64 {
        self.machines(self.engine())
    }

    fn row_bytes(&self) -> f64 {
        TASK_ROW_BYTES + PAYLOAD_FACTOR * f64::from(self.payload_bytes) + REGISTRY_ROW_BYTES
    }

    /// The size of an entry, as if all payloads were as long as the mean.
    fn redis_bytes(&self) -> f64 {
        REDIS_ENTRY_BYTES + f64::from(self.payload_bytes).min(REDIS_PAYLOAD_MOST)
    }

    /// The number of rows in the busiest bucket of one database: a day evens the hours out.
    fn rows_per_bucket(&self, width_hours: u64, databases: u64) -> f64 {
        let rate = if width_hours < 24 { self.peak_rate() } else { self.rate };
        rate * exact(width_hours) * HOUR_S / exact(databases)
    }

    /// Enough to do the work, enough that the narrowest bucket keeps to the limit, and enough that buckets are so wide that
    /// there are not too many.
    fn databases(&self) -> u64 {
        let narrowest = self.rows_per_bucket(1, 1);
        let mut databases = self.machines(self.mysql()).max(up(narrowest / exact(self.row_limit)));
        let widest = WIDTHS_HOURS.last().copied().unwrap_or(1);
        while exact(self.buckets(databases)) > BUCKETS_MOST && self.width_hours(databases) < widest {
            databases += 1 + databases / 8;
        }
        databases
    }

    /// The number of buckets of each database.
    fn buckets(&self, databases: u64) -> u64 {
        let hours = 24 * u64::from(self.keep_days) + self.ahead_hours();
        hours.div_ceil(self.width_hours(databases)) + 1
    }

    /// The horizon of buckets reaches the longest delay, so that few tasks are beyond it.
    fn ahead_hours(&self) -> u64 {
        up(self.delay.longest_s() / HOUR_S).clamp(AHEAD_HOURS, AHEAD_HOURS_MAX)
    }

    fn width_hours(&self, databases: u64) -> u64 {
        let fits = |width: &u64| self.rows_per_bucket(*width, databases) <= exact(self.row_limit);
        WIDTHS_HOURS.into_iter().rev().find(fits).unwrap_or(1)
    }
}

impl Need {
    pub(super) fn of(load: &Load) -> Self {
        let databases = load.databases();
        let width_hours = load.width_hours(databases);
        let rows_per_bucket = up(load.rows_per_bucket(width_hours, databases));
        let engines = load.engines.unwrap_or_else(|| load.engines_least() + 1);
        let keep_s = f64::from(load.keep_days) * DAY_S;
        let (pending, kept) = (load.rate * load.delay.mean_s(), load.rate * keep_s);
        let redis_entries = load.peak_rate() * load.delay.mean_within_s(load.horizon_s);
        let by_rate = up(load.peak_rate() / PARTITION_RATE);
        let disk_bytes = (pending + kept) * load.row_bytes() / exact(databases) / DISK_FULL_MOST;
        Self {
            peak_rate: load.peak_rate(),
            pending_rows: up(pending),
            kept_rows: up(kept),
            databases,
            bucket_width_hours: width_hours,
            rows_per_bucket,
            bucket_carry_rows: (rows_per_bucket / CARRIED_PART).clamp(CARRY_ROWS, CARRY_ROWS_MAX),
            buckets_ahead_hours: load.ahead_hours(),
            buckets_per_database: load.buckets(databases),
            partitions: by_rate
                .max(PARTITIONS_LEAST)
                .max(PARTITIONS_PER_ENGINE * engines)
                .next_power_of_two()
                .min(PARTITIONS_MOST),
            disk_bytes_per_database: up(disk_bytes),
            redis_entries: up(redis_entries),
            redis_bytes: up(redis_entries * load.redis_bytes() * REDIS_HEADROOM),
            redis_masters: up(load.cores_busy(load.redis()) / BUSY_MOST).max(1),
            engines,
            database_cores_busy: load.cores_busy(load.mysql()),
            engine_cores_busy: load.cores_busy(load.engine()),
            redis_cores_busy: load.cores_busy(load.redis()),
        }
    }

    /// The settings for `serve`.
    pub(super) fn settings(&self, load: &Load) -> Vec<(&'static str, u64)> {
        let mut settings = vec![
            (PARTITIONS, self.partitions),
            (HOT_MEMORY_MAX_MIB, self.redis_bytes.div_ceil(MIB).clamp(HOT_MIB_LEAST, HOT_MIB_MOST)),
            (HORIZON_MS, up(load.horizon_s * 1_000.0)),
            (BUCKETS_WIDTH_HOURS, self.bucket_width_hours),
            (BUCKETS_AHEAD_HOURS, self.buckets_ahead_hours),
            (BUCKETS_CARRY_ROWS, self.bucket_carry_rows),
            (ARCHIVE_AFTER_DAYS, u64::from(load.keep_days)),
        ];
        if load.mode == Mode::Push {
            settings.push((PUSH_STREAMS, self.redis_masters.min(STREAMS_MAX)));
        }
        settings
    }

    pub(super) fn rows(&self, load: &Load) -> Vec<[String; 3]> {
        let mut rows = self.axis(load);
        rows.extend(self.machines(load));
        rows
    }

    fn spare(&self, load: &Load) -> String {
        match self.engines.saturating_sub(load.engines_least()) {
            0 => "none may fail".to_owned(),
            1 => "one may fail".to_owned(),
            spare => format!("{spare} may fail"),
        }
    }

    fn axis(&self, load: &Load) -> Vec<[String; 3]> {
        let mean_hours = load.delay.mean_s() / HOUR_S;
        vec![
            row("rate", tasks(load.rate), format!("{} a day", count(up(load.rate * DAY_S)))),
            row("peak", tasks(self.peak_rate), format!("{} times the average", load.peak)),
            row("pending", millions(self.pending_rows), format!("each waits {mean_hours:.1} h on average")),
            row("kept", millions(self.kept_rows), format!("finished, for {} d", load.keep_days)),
            row(
                "databases",
                count(self.databases),
                format!(
                    "{:.2} cores at the peak, {:.0} µs a task; an hour of it must fit {} rows",
                    self.database_cores_busy,
                    load.us_per_task(load.mysql()),
                    count(load.row_limit)
                ),
            ),
            row(
                "bucket width",
                format!("{} h", self.bucket_width_hours),
                format!("{} rows in the busiest", millions(self.rows_per_bucket)),
            ),
            row(
                "buckets",
                count(self.buckets_per_database),
                format!("in each database: kept, and {} h ahead of the present", self.buckets_ahead_hours),
            ),
            row(
                "carried",
                count(self.bucket_carry_rows),
                "tasks of an old bucket at most that are needed for longer, and moved so that it can go"
                    .to_owned(),
            ),
            row(
                "partitions",
                count(self.partitions),
                format!("{} each at the peak", tasks(self.peak_rate / exact(self.partitions))),
            ),
        ]
    }

    fn machines(&self, load: &Load) -> Vec<[String; 3]> {
        vec![
            row(
                "disk",
                bytes(self.disk_bytes_per_database),
                format!(
                    "each database: {:.0} B a task, {:.0} % full",
                    load.row_bytes(),
                    100.0 * DISK_FULL_MOST
                ),
            ),
            row(
                "Redis memory",
                bytes(self.redis_bytes),
                format!(
                    "{} tasks due within {:.1} h at the peak, {:.0} B each, times {REDIS_HEADROOM}",
                    millions(self.redis_entries),
                    load.horizon_s / HOUR_S,
                    load.redis_bytes(),
                ),
            ),
            row(
                "Redis masters",
                count(self.redis_masters),
                format!(
                    "{:.2} cores at the peak, {:.0} µs a task, {:.0} % of one thread each",
                    self.redis_cores_busy,
                    load.us_per_task(load.redis()),
                    100.0 * BUSY_MOST
                ),
            ),
            row(
                "engines",
                count(self.engines),
                format!(
                    "{:.2} cores at the peak, {:.0} µs a task; {}",
                    self.engine_cores_busy,
                    load.us_per_task(load.engine()),
                    self.spare(load)
                ),
            ),
            row(
                "cores",
                count((self.databases + self.engines) * u64::from(load.cores) + self.redis_masters),
                format!("{} a database and an engine, 1 a Redis master", load.cores),
            ),
        ]
    }
}

fn row(what: &str, how_much: String, why: String) -> [String; 3] {
    [what.to_owned(), how_much, why]
}

fn tasks(rate: f64) -> String {
    format!("{}/s", count(up(rate)))
}

fn millions(number: u64) -> String {
    if number < 1_000_000 { count(number) } else { format!("{:.1} million", exact(number) / 1e6) }
}

fn bytes(number: u64) -> String {
    const UNITS: [(&str, f64); 3] =
        [("TiB", 1_099_511_627_776.0), ("GiB", 1_073_741_824.0), ("MiB", 1_048_576.0)];
    let fits = |pair: &(&str, f64)| exact(number) >= pair.1;
    let (unit, size) = UNITS.into_iter().find(fits).unwrap_or(("MiB", 1_048_576.0));
    format!("{:.1} {unit}", exact(number) / size)
}

/// Rounds up to an integer.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative, and a plan for more than 2^64 of anything is none"
)]
fn up(number: f64) -> u64 {
    // A sum of fractions may miss a whole number by its last bit.
    (number - 1e-9).ceil().max(0.0) as u64
}

/// Converts with the precision that a plan needs: 53 bits.
#[expect(clippy::cast_precision_loss, reason = "a plan does not need more than 53 bits")]
pub(super) const fn exact(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(rate: f64) -> Load {
        Load {
            rate,
            peak: 1.0,
            delay: "mean=1h".parse().unwrap(),
            payload_bytes: 200,
            keep_days: 7,
            horizon_s: HOUR_S,
            row_limit: 10_000_000,
            cores: 4,
            engines: None,
            mode: Mode::Pull,
        }
    }

    #[test]
    fn one_engine_costs_less_than_several_and_the_bus_costs_redis_more() {
        let need = |engines, mode| Need::of(&Load { engines, mode, ..load(5_000.0) });
        let (one, two) = (need(Some(1), Mode::Pull), need(Some(2), Mode::Pull));
        assert!(
            one.database_cores_busy < two.database_cores_busy
                && one.engine_cores_busy < two.engine_cores_busy
        );
        let pushed = need(Some(2), Mode::Push);
        assert!(pushed.redis_cores_busy > two.redis_cores_busy);
        assert_eq!(pushed.database_cores_busy.to_bits(), two.database_cores_busy.to_bits());
    }

    #[test]
    fn what_is_kept_for_years_gets_so_many_databases_that_buckets_are_few() {
        let need = Need::of(&Load { keep_days: 3_650, ..load(2_000.0) });
        assert!(need.buckets_per_database <= 4_096 && need.databases > 1, "{need:?}");
        assert!(need.rows_per_bucket <= 10_000_000, "{need:?}");
    }

    #[test]
    fn what_stands_is_the_rate_times_how_long_it_stands() {
        let need = Need::of(&load(100.0));
        assert_eq!((need.pending_rows, need.kept_rows), (360_000, 60_480_000));
        assert_eq!(need.redis_entries, 270_000, "evenly spread over two hours, half of them come within one");
    }

    #[test]
    fn a_bucket_is_as_wide_as_its_limit_allows_and_never_wider() {
        for rate in [1.0, 20.0, 100.0, 115.0, 116.0, 500.0, 2_777.0, 2_778.0, 20_000.0, 1e6] {
            let load = Load { peak: 2.0, ..load(rate) };
            let need = Need::of(&load);
            assert!(need.rows_per_bucket <= load.row_limit, "{rate}: {need:?}");
            let wider = WIDTHS_HOURS.into_iter().find(|wider| *wider > need.bucket_width_hours);
            let fits = wider.is_some_and(|wider| load.rows_per_bucket(wider, need.databases) <= 10_000_000.0);
            assert!(!fits, "{rate}: {need:?}");
        }
    }

    #[test]
    fn more_load_never_needs_less_of_anything_but_width() {
        let mut before = Need::of(&load(1.0));
        for rate in [10.0, 100.0, 1_000.0, 10_000.0, 100_000.0] {
            let need = Need::of(&load(rate));
            assert!(need.databases >= before.databases && need.engines >= before.engines, "{rate}");
            assert!(need.partitions >= before.partitions && need.redis_bytes > before.redis_bytes, "{rate}");
            assert!(need.redis_masters >= before.redis_masters, "{rate}");
            before = need;
        }
        assert!(before.databases > 1 && before.redis_masters > 1 && before.partitions > 100, "{before:?}");
    }

    #[test]
    fn the_smallest_load_gets_one_of_each_and_a_second_engine() {
        let need = Need::of(&load(0.001));
        assert_eq!((need.databases, need.redis_masters, need.engines), (1, 1, 2));
        assert_eq!((need.partitions, need.bucket_width_hours), (16, 168));
    }
}
