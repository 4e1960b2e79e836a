//! From a load to what it needs. Pure; every step is one line of the table that is printed, with its reason.

use super::{
    DAY_S,
    costs::{
        BUSY_MOST, DISK_FULL_MOST, ENGINE_US, MYSQL_US, PARTITION_RATE, PAYLOAD_FACTOR, REDIS_BODY_BYTES,
        REDIS_ENTRY_BYTES, REDIS_HEADROOM, REDIS_US, REGISTRY_ROW_BYTES, TASK_ROW_BYTES,
    },
    delay::Delay,
};
use crate::output::count;
use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub(super) struct Load {
    /// Tasks per second, on average.
    pub(super) rate: f64,
    /// The busiest hour against the average.
    pub(super) peak: f64,
    pub(super) delay: Delay,
    pub(super) payload_bytes: u32,
    pub(super) keep_s: f64,
    pub(super) horizon_s: f64,
    /// Of one bucket.
    pub(super) row_limit: u64,
    /// Of each machine.
    pub(super) cores: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Need {
    peak_rate: f64,
    pending_rows: u64,
    kept_rows: u64,
    databases: u64,
    bucket_width_hours: u64,
    rows_per_bucket: u64,
    buckets_per_database: u64,
    partitions: u64,
    disk_bytes_per_database: u64,
    redis_entries: u64,
    redis_bytes: u64,
    redis_masters: u64,
    engines: u64,
    database_cores_busy: f64,
    engine_cores_busy: f64,
}

const HOUR_S: f64 = 3_600.0;
/// Widths that divide a day or are whole days, narrowest first.
const WIDTHS_HOURS: [u64; 11] = [1, 2, 3, 4, 6, 8, 12, 24, 48, 72, 168];
/// As `BucketOptions` has it: there are buckets for at least so long ahead.
const AHEAD_S: f64 = 8.0 * DAY_S;
const PARTITIONS_LEAST: u64 = 16;
/// One owner moves partitions one by one; fewer than this for each engine share the work unevenly.
const PARTITIONS_PER_ENGINE: u64 = 8;
const MICRO: f64 = 1e-6;

impl Load {
    fn peak_rate(&self) -> f64 {
        self.rate * self.peak
    }

    /// Processors that do nothing else at the peak.
    fn cores_busy(&self, us_per_task: f64) -> f64 {
        self.peak_rate() * us_per_task * MICRO
    }

    fn machines(&self, us_per_task: f64) -> u64 {
        up(self.cores_busy(us_per_task) / (f64::from(self.cores) * BUSY_MOST)).max(1)
    }

    fn row_bytes(&self) -> f64 {
        TASK_ROW_BYTES + PAYLOAD_FACTOR * f64::from(self.payload_bytes) + REGISTRY_ROW_BYTES
    }

    /// In the busiest bucket of one database: a day evens the hours out.
    fn rows_per_bucket(&self, width_hours: u64, databases: u64) -> f64 {
        let rate = if width_hours < 24 { self.peak_rate() } else { self.rate };
        rate * exact(width_hours) * HOUR_S / exact(databases)
    }

    /// Enough to do the work, and enough that the narrowest bucket keeps to the limit.
    fn databases(&self) -> u64 {
        let narrowest = self.rows_per_bucket(1, 1);
        self.machines(MYSQL_US).max(up(narrowest / exact(self.row_limit)))
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
        let engines = load.machines(ENGINE_US) + 1;
        let (pending, kept) = (load.rate * load.delay.mean_s(), load.rate * load.keep_s);
        let axis_s = load.keep_s + load.delay.longest_s().max(AHEAD_S);
        let redis_entries = load.peak_rate() * load.delay.mean_within_s(load.horizon_s);
        let by_rate = up(load.peak_rate() / PARTITION_RATE);
        let disk_bytes = (pending + kept) * load.row_bytes() / exact(databases) / DISK_FULL_MOST;
        Self {
            peak_rate: load.peak_rate(),
            pending_rows: up(pending),
            kept_rows: up(kept),
            databases,
            bucket_width_hours: width_hours,
            rows_per_bucket: up(load.rows_per_bucket(width_hours, databases)),
            buckets_per_database: up(axis_s / (exact(width_hours) * HOUR_S)) + 1,
            partitions: by_rate
                .max(PARTITIONS_LEAST)
                .max(PARTITIONS_PER_ENGINE * engines)
                .next_power_of_two(),
            disk_bytes_per_database: up(disk_bytes),
            redis_entries: up(redis_entries),
            redis_bytes: up(redis_entries * redis_entry_bytes(load) * REDIS_HEADROOM),
            redis_masters: up(load.cores_busy(REDIS_US) / BUSY_MOST).max(1),
            engines,
            database_cores_busy: load.cores_busy(MYSQL_US),
            engine_cores_busy: load.cores_busy(ENGINE_US),
        }
    }

    pub(super) fn rows(&self, load: &Load) -> Vec<[String; 3]> {
        let mut rows = self.axis(load);
        rows.extend(self.machines(load));
        rows
    }

    fn axis(&self, load: &Load) -> Vec<[String; 3]> {
        let mean_hours = load.delay.mean_s() / HOUR_S;
        vec![
            row("rate", tasks(load.rate), format!("{} a day", count(up(load.rate * DAY_S)))),
            row("peak", tasks(self.peak_rate), format!("{} times the average", load.peak)),
            row("pending", millions(self.pending_rows), format!("each waits {mean_hours:.1} h on average")),
            row("kept", millions(self.kept_rows), format!("finished, for {:.1} d", load.keep_s / DAY_S)),
            row(
                "databases",
                count(self.databases),
                format!(
                    "{:.2} cores at the peak; an hour of it must fit {} rows",
                    self.database_cores_busy,
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
                "in each database: kept, and ahead of the present".to_owned(),
            ),
            row("partitions", count(self.partitions), format!("{PARTITION_RATE} tasks/s each, at most")),
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
                    redis_entry_bytes(load)
                ),
            ),
            row(
                "Redis masters",
                count(self.redis_masters),
                format!("{REDIS_US} µs a task on one thread, {:.0} % busy", 100.0 * BUSY_MOST),
            ),
            row(
                "engines",
                count(self.engines),
                format!("{:.2} cores at the peak, and one more that may fail", self.engine_cores_busy),
            ),
            row(
                "cores",
                count((self.databases + self.engines) * u64::from(load.cores) + self.redis_masters),
                format!("{} a database and an engine, 1 a Redis master", load.cores),
            ),
        ]
    }
}

fn redis_entry_bytes(load: &Load) -> f64 {
    REDIS_ENTRY_BYTES + REDIS_BODY_BYTES + f64::from(load.payload_bytes)
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
    let fits = |it: &(&str, f64)| exact(number) >= it.1;
    let (unit, size) = UNITS.into_iter().find(fits).unwrap_or(("MiB", 1_048_576.0));
    format!("{:.1} {unit}", exact(number) / size)
}

/// To the next whole number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative, and a plan for more than 2^64 of anything is none"
)]
fn up(number: f64) -> u64 {
    // A sum of fractions may miss a whole number by its last bit.
    (number - 1e-9).ceil().max(0.0) as u64
}

/// As exact as a plan needs it: 53 bits.
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
            keep_s: 7.0 * DAY_S,
            horizon_s: HOUR_S,
            row_limit: 10_000_000,
            cores: 4,
        }
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
            let wider = WIDTHS_HOURS.into_iter().find(|it| *it > need.bucket_width_hours);
            let fits = wider.is_some_and(|it| load.rows_per_bucket(it, need.databases) <= 10_000_000.0);
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
