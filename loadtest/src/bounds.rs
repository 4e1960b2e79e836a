//! Checks that a server continues as it began while more and more tasks wait: spread over a month, and a few over a
//! hundred years. At each tenth of them it measures the rate of inserts, the lateness of tasks that are due at once,
//! and the memory of the engines, which their settings bound. It does not wait for the tasks to become due.

use crate::{
    clock::{now_ms, now_us, seconds},
    fill::fill_from,
    http::Target,
    idle::probe,
    options::{ServerOptions, parse_ms},
    progress::note,
    report::Report,
    run::prepare,
    scenario::{LoadSite, Scenario, too_much_memory},
    server::Server,
    wire::Shape,
};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

const CENTURY_MS: i64 = 36_525 * 86_400_000;
/// The size of a probe's payload, as of the others'.
const PAYLOAD_BYTES: usize = 200;
const STEPS: usize = 10;

#[derive(Args, Debug, Clone)]
pub(crate) struct BoundsOptions {
    #[arg(long, default_value_t = 10_000_000)]
    pub(crate) tasks: usize,
    /// Over how long they are due
    #[arg(long = "over", default_value = "30d", value_parser = parse_ms)]
    pub(crate) window: i64,
    /// Further tasks, due up to a hundred years later
    #[arg(long, default_value_t = 1_000)]
    pub(crate) far: usize,
    /// Tasks due at once that are timed at each tenth, one after the other
    #[arg(long, default_value_t = 50)]
    pub(crate) probes: usize,
    /// Fails when the last tenth is inserted at less than this part of the best one's rate
    #[arg(long, default_value_t = 50)]
    pub(crate) least_percent: u32,
    /// Fails when an engine's memory was ever more
    #[arg(long)]
    pub(crate) rss_max_mib: Option<f64>,
    /// Connections that fill
    #[arg(long, default_value_t = 4)]
    pub(crate) connections: usize,
    /// One JSON object on stdout instead of the table
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerOptions,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct BoundsReport {
    pub(crate) steps: Vec<BoundsStep>,
    /// The peak memory of all engines together; null without a process to read.
    pub(crate) rss_peak_mib: Option<f64>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct BoundsStep {
    /// The number of tasks that wait.
    pub(crate) waiting: usize,
    /// `None` for the far ones alone, which are few.
    pub(crate) insert_per_s: Option<f64>,
    /// The lateness of the tasks that were due at once: receipt − `execute_at`.
    pub(crate) late_p50_ms: f64,
    pub(crate) late_max_ms: f64,
    pub(crate) rss_mib: Option<f64>,
}

impl Scenario for BoundsOptions {
    type Report = BoundsReport;

    async fn prepare(&self) -> anyhow::Result<(Server, Target)> {
        anyhow::ensure!(self.probes > 0 && self.tasks >= STEPS, "too few tasks, or nothing to time");
        prepare(&self.server, None).await
    }

    async fn measure(&self, site: &mut LoadSite) -> anyhow::Result<BoundsReport> {
        let (base, start_ms) = (now_ms() * 1_000, now_ms());
        let (far, window) = (self.far, self.window);
        let far_apart_ms = CENTURY_MS / i64::try_from(far.max(1))?;
        // The probes' ids are behind all others.
        let behind = base + i64::try_from(self.tasks + far)?;
        let shape = Shape::new("bounds-probe".to_owned(), behind, PAYLOAD_BYTES);
        let mut steps = Vec::with_capacity(STEPS + 1);
        let write = move |body: &mut String, nth: usize| {
            let number = i64::try_from(nth).unwrap_or(i64::MAX);
            let later_ms = if nth < far {
                window + (number + 1) * far_apart_ms
            } else {
                // Far from the order of their times; none within an hour, so that all wait.
                3_600_000 + number.wrapping_mul(7_919_000_003).rem_euclid(window)
            };
            let (id, at_ms, pad) = (base + number, start_ms + later_ms, PAYLOAD_BYTES - 10);
            let _ = write!(
                body,
                r#"{{"queue":"bounds","task_id":{id},"execute_at_ms":{at_ms},"payload":{{"n":"{nth:0>pad$}"}}}}"#
            );
        };
        let mut from = 0;
        for step in 0..=STEPS {
            let to = far + self.tasks * step / STEPS;
            let began_us = now_us();
            fill_from(&site.target, (from, to, self.connections), write).await?;
            let per_s = (to - from) as f64 / seconds(now_us() - began_us).max(1e-6);
            from = to;
            let timed = time(self, site, (&shape, step)).await?;
            let insert_per_s = (step > 0).then_some(per_s);
            let step = BoundsStep { waiting: to, insert_per_s, rss_mib: site.rss_mib(), ..timed };
            note(&step.line());
            steps.push(step);
        }
        Ok(BoundsReport { steps, rss_peak_mib: site.rss_peak_mib() })
    }

    fn judge(&self, report: &BoundsReport) -> Vec<String> {
        let slower = slower(&report.steps, self.least_percent);
        slower.into_iter().chain(too_much_memory(self.rss_max_mib, report.rss_peak_mib)).collect()
    }
}

/// Measures the lateness of tasks that are due at once.
async fn time(
    options: &BoundsOptions,
    site: &mut LoadSite,
    (shape, step): (&Shape, usize),
) -> anyhow::Result<BoundsStep> {
    let numbers = step * options.probes..(step + 1) * options.probes;
    let probes = probe(&site.target, shape, numbers).await?;
    let mut late_ms: Vec<f64> = probes.iter().map(|probe| probe.lateness_us as f64 / 1e3).collect();
    late_ms.sort_by(f64::total_cmp);
    if probes.iter().any(|probe| probe.is_early || !probe.is_accepted) {
        site.broken.push(format!("at step {step} a task came early, or its outcome was not accepted"));
    }
    let of = |share: usize| late_ms.get((late_ms.len() - 1) * share / 100).copied().unwrap_or(0.0);
    Ok(BoundsStep {
        waiting: 0,
        insert_per_s: None,
        late_p50_ms: of(50),
        late_max_ms: of(100),
        rss_mib: None,
    })
}

/// The last tenth against the best.
fn slower(steps: &[BoundsStep], least_percent: u32) -> Option<String> {
    let rates: Vec<f64> = steps.iter().filter_map(|step| step.insert_per_s).collect();
    let (best, last) = (rates.iter().copied().fold(0.0, f64::max), rates.last().copied()?);
    let is_slower = last * 100.0 < best * f64::from(least_percent);
    is_slower.then(|| format!("the last tenth was inserted at {last:.0}/s, the best one at {best:.0}/s"))
}

impl BoundsStep {
    fn line(&self) -> String {
        let or = |number: Option<f64>| number.map_or_else(|| "-".to_owned(), |number| format!("{number:.0}"));
        format!(
            "{:>12} {:>10} {:>10.2} {:>10.2} {:>8}",
            self.waiting,
            or(self.insert_per_s),
            self.late_p50_ms,
            self.late_max_ms,
            or(self.rss_mib)
        )
    }
}

impl Report for BoundsReport {
    fn table(&self) -> String {
        let mut out = "     waiting   insert/s   p50 late        max  rss MiB\n".to_owned();
        for step in &self.steps {
            let _ = writeln!(out, "{}", step.line());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_gets_slow_is_said_to_be() {
        let step = |rate| BoundsStep {
            waiting: 1,
            insert_per_s: rate,
            late_p50_ms: 0.0,
            late_max_ms: 0.0,
            rss_mib: None,
        };
        let steps = |last| [step(None), step(Some(100.0)), step(Some(80.0)), step(Some(last))];
        assert_eq!(slower(&steps(50.0), 50), None);
        let said = slower(&steps(49.0), 50).unwrap();
        assert!(said.contains("49/s") && said.contains("100/s"), "{said}");
    }
}
