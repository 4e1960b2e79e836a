//! Measures the effect of a flooding tenant on another one: two namespaces, each with a queue and executors of its
//! own, first each at its rate, then one of them at many times that. Judged by the other one's tasks. Tasks that the
//! flooding one has left over at the end are no fault: it requested more than its share.

use crate::{
    clock::{now_ms, now_us},
    execute::{Manner, execute_all},
    http::{Connection, Target},
    insert::{InsertCall, insert_all},
    job::{JobThread, RunJob, still_at_work},
    measure::{Percentiles, Spans},
    options::Usage,
    plan::{Frame, LoadShape, Plan},
    progress::note,
    report::{Report, line},
    run::{options::RunOptions, prepare},
    scenario::{LoadSite, Scenario},
    server::Server,
    wire::Shape,
};
use serde::{Deserialize, Serialize};
use std::{fmt::Write as _, sync::Arc, time::Duration};
use tokio::sync::watch;

const ANSWER_LIMIT: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_millis(10);
/// The time from planning to the first insert.
const LEAD_MS: i64 = 100;
/// Both are at work for so long before what is measured is due: a flood begins beside a tenant that is at work, and a share is
/// found within a second.
const SETTLE_MS: i64 = 3_000;
/// The distance between two loads' task ids; more than any run has tasks.
const IDS_APART: i64 = 1 << 50;
/// The pause after a phase, beyond the leases of what was left in flight.
const REST_MS: i64 = 500;
/// The maximum lease: the end of a phase waits for what is in flight. A lease is no longer than this, or than a few
/// times the work.
const LEASE_MAX_MS: i64 = 2_000;
const LEASE_WORKS: i64 = 10;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FloodReport {
    /// Tasks a second of each in peace, and how many times that the one sends that floods.
    pub(crate) rate: u64,
    pub(crate) times: u64,
    /// The slots that both share; null if they were not limited.
    pub(crate) slots: Option<u16>,
    pub(crate) rounds: u32,
    pub(crate) seed: u64,
    /// The results of all rounds together.
    pub(crate) peace: Phase,
    pub(crate) flooded: Phase,
    pub(crate) each_round: Vec<Round>,
    /// The ratio of the other one's lateness: flooded over in peace, the median of the rounds.
    pub(crate) p50_ratio: f64,
    pub(crate) p99_ratio: f64,
}

/// When the other's tasks started, in peace and flooded, one beside the other.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Round {
    pub(crate) peace: Percentiles,
    pub(crate) flooded: Percentiles,
}

impl Round {
    fn p50_ratio(&self) -> f64 {
        ratio(self.flooded.p50_ms, self.peace.p50_ms)
    }

    fn p99_ratio(&self) -> f64 {
        ratio(self.flooded.p99_ms, self.peace.p99_ms)
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Phase {
    /// The one that floods.
    pub(crate) one: Tenant,
    pub(crate) other: Tenant,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Tenant {
    pub(crate) tasks: u64,
    pub(crate) done: u64,
    /// The server's `fired_at` − `execute_at`, in full milliseconds.
    pub(crate) fired_lateness: Percentiles,
    /// First receipt at an executor − `execute_at`.
    pub(crate) start_delay: Percentiles,
    /// Insert call to answer.
    pub(crate) insert: Percentiles,
}

/// The measurements of a tenant in all rounds.
#[derive(Debug, Default)]
struct Measured {
    tasks: u64,
    done: u64,
    fired: Spans,
    started: Spans,
    insert: Spans,
}

impl Measured {
    fn add_all(&mut self, other: &Self) {
        self.tasks += other.tasks;
        self.done += other.done;
        self.fired.add(&other.fired);
        self.started.add(&other.started);
        self.insert.add(&other.insert);
    }

    fn add(&mut self, job: &RunJob) {
        let checker = job.checker.lock();
        self.tasks += u64::try_from(job.plan.len()).unwrap_or(u64::MAX);
        self.done += checker.so_far().outcomes_accepted;
        self.fired.add(&checker.measured.fired);
        self.started.add(&checker.measured.lateness);
        self.insert.add(&checker.measured.insert);
    }

    fn reported(&self) -> Tenant {
        Tenant {
            tasks: self.tasks,
            done: self.done,
            fired_lateness: self.fired.percentiles(),
            start_delay: self.started.percentiles(),
            insert: self.insert.percentiles(),
        }
    }
}

/// `--scenario flood` of these options.
#[derive(Debug)]
pub(crate) struct FloodScenario<'a>(pub(crate) &'a RunOptions);

impl FloodScenario<'_> {
    /// The rate of each tenant in peace, and how long a phase lasts.
    fn load(&self) -> Result<(u64, i64), Usage> {
        match self.0.load()? {
            LoadShape::Sustained { rate, duration_ms } => Ok((rate, duration_ms)),
            LoadShape::Uniform { .. } | LoadShape::Burst { .. } => Err(Usage("a flood is sustained")),
        }
    }
}

impl Scenario for FloodScenario<'_> {
    type Report = FloodReport;

    async fn prepare(&self) -> anyhow::Result<(Server, Target)> {
        self.load()?;
        self.0.check()?;
        prepare(&self.0.server, None).await
    }

    async fn measure(&self, site: &mut LoadSite) -> anyhow::Result<FloodReport> {
        let (options, (rate, duration_ms)) = (self.0, self.load()?);
        if let Some(slots) = options.flood.slots {
            set_slots(site.target.clone(), slots).await?;
        }
        let seed = options.seed.unwrap_or_else(|| fastrand::u64(..));
        let run = FloodRun { options, urls: site.target.urls(), rate, seed };
        let (mut all, mut each_round) = (<[[Measured; 2]; 2]>::default(), Vec::new());
        // Once through everything, so that peace is not measured cold.
        let mut cold = <[Measured; 2]>::default();
        run.phase((1, duration_ms / 4), site, &mut cold).await?;
        for round in 0..options.flood.rounds {
            let mut phases = <[[Measured; 2]; 2]>::default();
            let [peace, flooded] = &mut phases;
            let mut order = [(1, peace), (options.flood.times, flooded)];
            if round % 2 == 1 {
                // What comes first is another one each time, so that a machine that grows slower favours neither.
                order.reverse();
            }
            for (times, measured) in order {
                note(&format!("round {}: one tenant at {times} times its rate", round + 1));
                run.phase((times, duration_ms), site, measured).await?;
            }
            for (sum, phase) in all.iter_mut().flatten().zip(phases.iter().flatten()) {
                sum.add_all(phase);
            }
            let [peace, flooded] = phases.map(|[_, other]| other.started.percentiles());
            each_round.push(Round { peace, flooded });
        }
        let [peace, flooded] = all.map(|[one, other]| Phase { one: one.reported(), other: other.reported() });
        Ok(FloodReport {
            rate,
            times: options.flood.times,
            slots: options.flood.slots,
            rounds: options.flood.rounds,
            seed,
            p50_ratio: median(each_round.iter().map(Round::p50_ratio)),
            p99_ratio: median(each_round.iter().map(Round::p99_ratio)),
            each_round,
            peace,
            flooded,
        })
    }

    fn judge(&self, report: &FloodReport) -> Vec<String> {
        report.judge(self.0.flood.within_percent)
    }
}

async fn set_slots(target: Target, slots: u16) -> anyhow::Result<()> {
    let body = format!(r#"{{"concurrency":{slots}}}"#);
    let mut connection = Connection::new(target);
    let answer = connection.put("/v1/limits", body.as_bytes(), ANSWER_LIMIT).await?;
    anyhow::ensure!(answer.is_success(), "setting the slots of everything: {}", answer.describe());
    Ok(())
}

fn ratio(flooded_ms: f64, peace_ms: f64) -> f64 {
    flooded_ms / peace_ms.max(0.001)
}

/// The median; of an even number the middle between the two.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    let (below, above) = (values.len().saturating_sub(1) / 2, values.len() / 2);
    let at = |nth: usize| values.get(nth).copied().unwrap_or(0.0);
    f64::midpoint(at(below), at(above))
}

/// The state that all phases share.
struct FloodRun<'a> {
    options: &'a RunOptions,
    urls: String,
    rate: u64,
    seed: u64,
}

impl FloodRun<'_> {
    /// Both at work, until the other one's tasks are done.
    async fn phase(
        &self,
        (times, duration_ms): (u64, i64),
        site: &mut LoadSite,
        measured: &mut [Measured; 2],
    ) -> anyhow::Result<()> {
        let settle_ms = now_ms() + LEAD_MS;
        let start_ms = settle_ms + SETTLE_MS;
        let one = self.job("flood-one", (start_ms, duration_ms), 0, self.rate.saturating_mul(times))?;
        let other = self.job("flood-other", (start_ms, duration_ms), IDS_APART, self.rate)?;
        let settling = |name, id_offset| self.job(name, (settle_ms, SETTLE_MS), id_offset, self.rate);
        let before = [settling("flood-one", 2 * IDS_APART)?, settling("flood-other", 3 * IDS_APART)?];
        let (stop, stopped) = watch::channel(false);
        let mut lanes = Vec::new();
        for job in before.iter().chain([&one, &other]) {
            lanes.push(self.inserts(job, stopped.clone())?);
            lanes.push(self.executors(job, stopped.clone())?);
        }
        let until_us = (other.plan.last_due_ms + self.options.grace) * 1_000;
        let all = u64::try_from(other.plan.len())?;
        let is_over = || {
            let checker = other.checker.lock();
            now_us() > other.plan.last_due_ms * 1_000
                && checker.so_far().inserted >= all
                && checker.open() == 0
                && before.iter().all(|job| job.checker.lock().open() == 0)
        };
        while !is_over() && now_us() < until_us {
            tokio::time::sleep(TICK).await;
            site.server.check_alive()?;
            lanes = still_at_work(lanes)?;
        }
        stop.send_replace(true);
        for lane in lanes {
            lane.join().await?;
        }
        let [one_before, other_before] = &before;
        for (name, job, left) in [
            ("the one before it floods", one_before, false),
            ("the other before the flood", other_before, false),
            ("the one that floods", &one, true),
            ("the other", &other, false),
        ] {
            let mut counts = job.checker.lock().judge();
            counts.lost = if left { 0 } else { counts.lost };
            site.broken.extend(counts.broken().into_iter().map(|text| format!("{name}: {text}")));
        }
        if other.checker.lock().so_far().inserted < all {
            site.broken.push("the other: not all of its inserts were answered in time".to_owned());
        }
        let [of_one, of_other] = measured;
        of_one.add(&one);
        of_other.add(&other);
        // What the one had in flight holds its slots until the leases end.
        let rest_ms = u64::try_from(self.lease_ms().saturating_add(REST_MS)).unwrap_or(0);
        tokio::time::sleep(Duration::from_millis(rest_ms)).await;
        Ok(())
    }

    fn job(
        &self,
        namespace: &str,
        (start_ms, duration_ms): (i64, i64),
        id_offset: i64,
        rate: u64,
    ) -> anyhow::Result<Arc<RunJob>> {
        let options = self.options;
        let target = Target::trusting(
            &self.urls,
            Some(namespace),
            options.server.token.as_deref(),
            options.server.ca.as_deref(),
        )?;
        let queue = format!("flood-{start_ms}");
        let shape = Shape::new(queue, start_ms * 1_000 + id_offset, options.common.payload_bytes);
        let batch = usize::try_from(rate / 10).unwrap_or(usize::MAX).clamp(1, 1_000);
        let batch = options.common.batch.unwrap_or(batch);
        let frame = Frame { start_ms, ahead_ms: options.ahead_ms(), batch, seed: self.seed };
        Ok(RunJob::new(target, shape, Plan::new(LoadShape::Sustained { rate, duration_ms }, frame)))
    }

    fn lease_ms(&self) -> i64 {
        let longest = LEASE_MAX_MS.max(self.options.flood.work.saturating_mul(LEASE_WORKS));
        self.options.lease.min(longest)
    }

    fn inserts(&self, job: &Arc<RunJob>, stop: watch::Receiver<bool>) -> anyhow::Result<JobThread> {
        let (job, connections) = (Arc::clone(job), self.options.connections());
        let call = if self.options.singles { InsertCall::Single } else { InsertCall::Batch };
        JobThread::start("insert", stop, move || insert_all(job, call, connections))
    }

    fn executors(&self, job: &Arc<RunJob>, stop: watch::Receiver<bool>) -> anyhow::Result<JobThread> {
        let (job, options, lease_ms) = (Arc::clone(job), self.options, self.lease_ms());
        let whole_ms = |ms: i64| u64::try_from(ms).unwrap_or(0);
        let slots = options.flood.slots.map(usize::from);
        let manner = Manner {
            executors: slots.unwrap_or(options.executors),
            lease_max: slots.map_or(options.lease_max, |_| 1),
            wait_ms: whole_ms(options.wait),
            lease_ms: whole_ms(lease_ms),
            linger: Duration::from_millis(whole_ms(options.linger)),
            work: Duration::from_millis(whole_ms(options.flood.work)),
        };
        JobThread::start("execute", stop, move || execute_all(job, manner, None))
    }
}

impl FloodReport {
    fn judge(&self, within_percent: u32) -> Vec<String> {
        let mut broken = Vec::new();
        if self.peace.other.start_delay.count == 0 || self.flooded.other.start_delay.count == 0 {
            broken.push("nothing of the other was measured".to_owned());
        }
        if self.p99_ratio > 1.0 + f64::from(within_percent) / 100.0 {
            broken.push(format!(
                "the other's p99 is {:.2} times what it is in peace; {within_percent} percent more were allowed",
                self.p99_ratio
            ));
        }
        broken
    }
}

impl Report for FloodReport {
    fn table(&self) -> String {
        let Self { rate, times, slots, rounds, .. } = self;
        let shared = slots.map_or_else(|| "no limit".to_owned(), |slots| format!("{slots} slots for both"));
        let mut out =
            format!("flood: {rate}/s each, then one at {times} times that; {shared}; rounds: {rounds}\n\n");
        for (when, phase) in [("in peace", &self.peace), ("flooded", &self.flooded)] {
            for (who, tenant) in [("one", &phase.one), ("other", &phase.other)] {
                let name = format!("{when}, the {who}");
                line(&mut out, &name, format_args!("{} tasks, {} done", tenant.tasks, tenant.done));
                for (what, percentiles) in [
                    ("fired, ms", tenant.fired_lateness),
                    ("started, ms", tenant.start_delay),
                    ("insert, ms", tenant.insert),
                ] {
                    let Percentiles { p50_ms, p99_ms, p999_ms, max_ms, .. } = percentiles;
                    let rest =
                        format_args!("p50 {p50_ms:.2}  p99 {p99_ms:.2}  p99.9 {p999_ms:.2}  max {max_ms:.2}");
                    line(&mut out, &format!("  {what}"), rest);
                }
            }
        }
        out.push('\n');
        for (round, each_round) in self.each_round.iter().enumerate() {
            let Round { peace, flooded } = each_round;
            let name = format!("round {}, ms", round + 1);
            let rest = format_args!("the other's p99 {:.2}  flooded {:.2}", peace.p99_ms, flooded.p99_ms);
            line(&mut out, &name, rest);
        }
        let _ = writeln!(
            out,
            "\nthe other, flooded over in peace, median of the rounds: p50 {:.2}, p99 {:.2}",
            self.p50_ratio, self.p99_ratio
        );
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::JudgedReport;

    fn tenant(p99_ms: f64) -> Tenant {
        let start_delay = Percentiles { count: 9, p50_ms: 1.0, p99_ms, ..Percentiles::default() };
        let none = Percentiles::default();
        Tenant { tasks: 9, done: 9, fired_lateness: none, start_delay, insert: none }
    }

    fn report(peace_ms: f64, flooded_ms: f64) -> JudgedReport<FloodReport> {
        let phase = |p99_ms| Phase { one: tenant(99.0), other: tenant(p99_ms) };
        let report = FloodReport {
            rate: 1,
            times: 10,
            slots: None,
            rounds: 1,
            seed: 1,
            peace: phase(peace_ms),
            flooded: phase(flooded_ms),
            each_round: vec![Round {
                peace: tenant(peace_ms).start_delay,
                flooded: tenant(flooded_ms).start_delay,
            }],
            p50_ratio: 1.0,
            p99_ratio: ratio(flooded_ms, peace_ms),
        };
        JudgedReport::new(report.judge(20), report)
    }

    #[test]
    fn one_round_that_was_disturbed_decides_nothing() {
        assert_eq!(median([1.0, 9.0, 1.1].into_iter()), 1.1);
        assert_eq!(median([1.0, 2.0].into_iter()), 1.5);
        assert_eq!((median([3.0].into_iter()), median(std::iter::empty())), (3.0, 0.0));
    }

    #[test]
    fn a_flood_that_the_other_notices_is_a_breach_and_a_fifth_more_is_none() {
        assert!(report(5.0, 5.9).ok && report(5.0, 1.0).ok);
        let noticed = report(5.0, 6.1);
        assert!(!noticed.ok && noticed.broken[0].contains("1.22 times"), "{:?}", noticed.broken);
        assert!(noticed.table().contains("BROKEN"));
        let mut nothing = report(5.0, 5.0);
        nothing.report.flooded.other.start_delay.count = 0;
        assert!(!nothing.report.judge(20).is_empty());
    }
}
