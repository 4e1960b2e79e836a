//! How each row is measured: by the other commands of this program, in the words of their own command lines, on private
//! servers of their own. A run that breaks a promise is no figure.

use super::{
    figure::{Figure, Unit},
    rows::{BarRow, EMBEDDED, Measure, ONE},
    site::BarsSite,
};
use crate::{
    chaos::chaos,
    clock::{now_ms, now_us},
    command::{LoadCommand, Options},
    fill::fill,
    flood::FloodScenario,
    outage::cause::Cause,
    progress::note,
    report::{ProcessReport, RunReport},
    run::{prepare, run},
    scenario::perform,
    wire::Shape,
};
use anyhow::Context as _;
use clap::Parser as _;

/// A rate is held when so much of it is done.
const HELD: f64 = 0.95;
/// The duration of the measurement of a row of cost or lateness.
const FOR: &str = "--duration 10s --grace 10s";
const COST_RATE: u64 = 2_000;
const FLAT: f64 = 1.25;
const BURST: u64 = 100_000;
/// The distance between the ids of tasks that are far ahead and those of a run.
const IDS_APART: i64 = 1 << 50;
const FAR_MS: i64 = 7 * 24 * 3_600_000;
const TRICKLE_S: u64 = 15;
/// A run's first task is due so long after its beginning.
const AHEAD_S: u64 = 3;

impl BarsSite {
    pub(super) async fn measure(&mut self, row: &BarRow) -> anyhow::Result<Vec<Figure>> {
        let what = row.what;
        let figure = match row.measure {
            Measure::Wheel => return wheel().await,
            Measure::Sustained { server, share } => self.sustained(what, server, share).await,
            Measure::Burst { server, share } => self.burst(what, server, share).await,
            Measure::Lateness { server, rate, bars_ms } => {
                return self.lateness(what, server, (rate, bars_ms)).await;
            }
            Measure::TwoOverOne { rate, bar } => self.two_over_one(what, rate, bar).await,
            Measure::Inserts { is_single, share } => self.inserts(what, is_single, share).await,
            Measure::EngineMemory => self.engine_memory(what).await,
            Measure::RedisMemory => self.redis_memory(what).await,
            Measure::Idle => self.idle(what).await,
            Measure::Trickle => self.trickle(what).await,
            Measure::Flat { servers: [a, b] } => self.flat(what, [a.join(" "), b.join(" ")]).await,
            Measure::Pending => self.pending(what).await,
            Measure::EmbeddedSustained => self.embedded_sustained(what).await,
            Measure::EmbeddedBurst => self.embedded_burst(what).await,
            Measure::LimitedBurst { server } => self.limited_burst(what, server).await,
            Measure::Cost { server, ahead, bar } => self.cost(what, (server, ahead), bar).await,
            Measure::Overload { server } => return self.overload(what, server).await,
            Measure::Push => self.push(what).await,
            Measure::Takeover => self.takeover(what).await,
            Measure::EngineStopped => self.engine_stopped(what).await,
            Measure::ResumedElsewhere => self.resumed_elsewhere(what).await,
            Measure::RevokedElsewhere => self.revoked_elsewhere(what).await,
            Measure::Outage { what: outage, lasts, bar_s } => self.outage(what, (outage, lasts), bar_s).await,
            Measure::Flood { server } => self.flood(what, server).await,
            Measure::Chaos { words } => self.chaos(what, words).await,
        }?;
        Ok(vec![figure])
    }

    pub(super) fn parsed(&self, words: &str) -> anyhow::Result<LoadCommand> {
        note(&format!("    loadtest {words}"));
        let words = std::iter::once("loadtest").chain(words.split_whitespace());
        let mut command = Options::try_parse_from(words)?.command;
        match &mut command {
            LoadCommand::Run(options) if options.server.spawn => {
                options.server.server_bin.clone_from(&self.server_bin)
            }
            LoadCommand::Idle(options) => options.server.server_bin.clone_from(&self.server_bin),
            LoadCommand::Chaos(options) => options.server_bin.clone_from(&self.server_bin),
            _ => {}
        }
        Ok(command)
    }

    /// A run that may be asked for more than it holds: never early and never twice all the same.
    pub(super) async fn pressed(&self, words: &str) -> anyhow::Result<RunReport> {
        let LoadCommand::Run(options) = self.parsed(&format!("run {words}"))? else {
            anyhow::bail!("the words say run")
        };
        let report = Box::pin(run(&options)).await?;
        let counts = &report.counts;
        let broken = counts.early + counts.completed_twice + counts.run_after_completion;
        anyhow::ensure!(broken == 0, "{}", report.broken.join("; "));
        Ok(report)
    }

    /// A run that must keep every promise, and end in time.
    async fn kept(&self, words: &str) -> anyhow::Result<RunReport> {
        let report = self.pressed(words).await?;
        anyhow::ensure!(report.ok, "{}", report.broken.join("; "));
        Ok(report)
    }

    async fn burst(&mut self, what: &str, server: &str, share: f64) -> anyhow::Result<Figure> {
        let bare = self.parts().await?.pipeline.tasks_per_s;
        let drained = self.drained(server, BURST).await?;
        let took = BURST as f64 / drained;
        Ok(Figure::at_least(what, Unit::Share, drained / bare, share)
            .of(format_args!("last after {took:.1} s")))
    }

    /// Tasks a second, from the instant at which all of them are due.
    async fn drained(&self, server: &str, tasks: u64) -> anyhow::Result<f64> {
        // The slowest machine inserts 3,000 a second.
        let ahead = format!("{}s", tasks / 5_000);
        let words = format!("--scenario burst --tasks {tasks} --ahead {ahead} {server}");
        Ok(self.kept(&words).await?.rates.end_to_end_per_s)
    }

    async fn lateness(
        &mut self,
        what: &str,
        server: &str,
        (rate, bars_ms): (u64, [Option<f64>; 3]),
    ) -> anyhow::Result<Vec<Figure>> {
        let slowness = self.slowness().await?;
        let late = self.kept(&format!("--scenario sustained --rate {rate} {FOR} {server}")).await?.lateness;
        let percentiles = [("p50", late.p50_ms), ("p99", late.p99_ms), ("p99.9", late.p999_ms)];
        let figures = percentiles.into_iter().zip(bars_ms).filter_map(|((name, ms), bar_ms)| {
            Some(Figure::at_most(format!("{name}: {what}"), Unit::Ms, ms, bar_ms? * slowness))
        });
        Ok(figures.collect())
    }

    async fn two_over_one(&mut self, what: &str, rate: u64, bar: f64) -> anyhow::Result<Figure> {
        let words = format!("--scenario sustained --rate {rate} {FOR} {ONE}");
        let one_ms = self.kept(&words).await?.lateness.p99_ms;
        let two_ms = self.kept(&format!("{words} --engines 2")).await?.lateness.p99_ms;
        let times = (two_ms - 1.0).max(0.0) / one_ms;
        Ok(Figure::at_most(what, Unit::Times, times, bar).of(format_args!("{two_ms:.1}, {one_ms:.1} ms")))
    }

    async fn inserts(&mut self, what: &str, is_single: bool, share: f64) -> anyhow::Result<Figure> {
        let bare = self.parts().await?.inserts;
        let (words, bare) = if is_single {
            ("--tasks 40000 --singles", bare.singles_per_s)
        } else {
            ("--tasks 200000", bare.batches_per_s)
        };
        let report = self.kept(&format!("--scenario uniform {words} --insert-only {ONE}")).await?;
        let per_s = report.rates.insert_per_s;
        Ok(Figure::at_least(what, Unit::Share, per_s / bare, share).of(format_args!("{per_s:.0}/s")))
    }

    async fn engine_memory(&self, what: &str) -> anyhow::Result<Figure> {
        let words = format!("--scenario uniform --tasks 500000 --insert-only {EMBEDDED}");
        let engine = self.kept(&words).await?.server.context(NO_PROC)?;
        let mb = engine.rss_peak_mib * 1.048_576 * 2.0;
        Ok(Figure::at_most(what, Unit::Mb, mb, 400.0))
    }

    async fn redis_memory(&self, what: &str) -> anyhow::Result<Figure> {
        const TASKS: f64 = 200_000.0;
        let words = format!("--scenario uniform --tasks 200000 --insert-only {ONE}");
        let redis = self.kept(&words).await?.redis.context(NO_PROC)?;
        let bytes = redis.rss_peak_mib * 1_048_576.0 / TASKS;
        anyhow::ensure!(bytes > 100.0, "{bytes:.0} B of Redis a task: they were not loaded");
        Ok(Figure::at_most(what, Unit::Bytes, bytes, 600.0))
    }

    async fn idle(&self, what: &str) -> anyhow::Result<Figure> {
        let words = format!("idle --tasks 300000 --in 7d --measure 10s {ONE}");
        let LoadCommand::Idle(options) = self.parsed(&words)? else { anyhow::bail!("the words say idle") };
        let report = Box::pin(perform(&options)).await?.kept()?;
        Ok(Figure::at_most(what, Unit::CorePercent, report.idle_cpu_percent.context(NO_PROC)?, 1.0))
    }

    async fn trickle(&self, what: &str) -> anyhow::Result<Figure> {
        let words =
            format!("--scenario sustained --rate 20 --duration {TRICKLE_S}s --ahead {AHEAD_S}s {ONE}");
        let engine = self.kept(&words).await?.server.context(NO_PROC)?;
        let percent = (engine.cpu_user_s + engine.cpu_system_s) / (TRICKLE_S + AHEAD_S) as f64 * 100.0;
        Ok(Figure::at_most(what, Unit::CorePercent, percent, 4.0))
    }

    async fn flat(&self, what: &str, servers: [String; 2]) -> anyhow::Result<Figure> {
        let mut us = [0.0; 2];
        for (us, server) in us.iter_mut().zip(servers) {
            let words = format!("--scenario sustained --rate {COST_RATE} {FOR} {server}");
            *us = cpu_us(&self.kept(&words).await?)?;
        }
        Ok(self.dearer(what, us))
    }

    fn dearer(&self, what: &str, [a, b]: [f64; 2]) -> Figure {
        Figure::at_most(what, Unit::Times, a.max(b) / a.min(b), FLAT).of(format_args!("{a:.0} and {b:.0} us"))
    }

    /// One server, measured empty and again with tasks that wait.
    async fn pending(&self, what: &str) -> anyhow::Result<Figure> {
        let LoadCommand::Run(options) =
            self.parsed(&format!("run --scenario sustained --rate 1 {ONE} --databases 2"))?
        else {
            anyhow::bail!("the words say run")
        };
        let (server, target) = prepare(&options.server, None).await?;
        let words = format!("--scenario sustained --rate {COST_RATE} {FOR} --url {}", target.urls());
        let mut us = [0.0; 2];
        for (nth, us) in us.iter_mut().enumerate() {
            if nth == 1 {
                let shape = Shape::new("far".to_owned(), now_us() + IDS_APART, 200);
                fill(&target, (self.pending, 2), move |body, nth| {
                    let mut task = Vec::new();
                    shape.write_task(nth, now_ms() + FAR_MS, &mut task);
                    body.push_str(&String::from_utf8_lossy(&task));
                })
                .await?;
            }
            let before = server.used();
            let report = self.kept(&words).await?;
            let after = server.used();
            let spent = [
                after.engines.zip(before.engines),
                after.mariadb.zip(before.mariadb),
                after.redis.zip(before.redis),
            ];
            for part in spent {
                let (now, then) = part.context(NO_PROC)?;
                *us += now.since(then).cpu_us() as f64 / report.tasks as f64;
            }
        }
        server.end().await?;
        let [empty, filled] = us;
        let figure = Figure::at_most(what, Unit::Times, filled / empty, FLAT);
        Ok(figure.of(format_args!("{} pending; {empty:.0} and {filled:.0} us", self.pending)))
    }

    async fn embedded_burst(&self, what: &str) -> anyhow::Result<Figure> {
        let embedded = self.drained(EMBEDDED, BURST / 2).await?;
        let mysql = self.drained(ONE, BURST / 2).await?;
        let figure = Figure::at_least(what, Unit::Times, embedded / mysql, 1.0);
        Ok(figure.of(format_args!("{embedded:.0} and {mysql:.0}/s")))
    }

    async fn limited_burst(&self, what: &str, server: &str) -> anyhow::Result<Figure> {
        let plain = self.drained(server, BURST / 2).await?;
        let limits = format!("{server} --concurrency 1000 --priorities 5 --lease-max 250");
        let limited = self.drained(&limits, BURST / 2).await?;
        let figure = Figure::at_least(what, Unit::Share, limited / plain, 0.7);
        Ok(figure.of(format_args!("{limited:.0} and {plain:.0}/s")))
    }

    async fn cost(&mut self, what: &str, (server, ahead): (&str, &str), bar: f64) -> anyhow::Result<Figure> {
        let bare_us = self.parts().await?.pipeline.us();
        for rate in [10_000, 5_000, 2_500, 1_250] {
            let words = format!(
                "--scenario sustained --rate {rate} --ahead {ahead} --duration 8s --grace 5s {server}"
            );
            let report = self.pressed(&words).await?;
            if is_held(&report, rate) {
                let us = cpu_us(&report)?;
                let figure = Figure::at_most(what, Unit::Times, us / bare_us, bar);
                return Ok(figure.of(format_args!("{us:.0} us at {rate}/s")));
            }
        }
        anyhow::bail!("not even 1,250/s are held")
    }

    /// Rates are doubled until one is not held: that is up to twice what is held, and the one before last is half of it.
    async fn overload(&mut self, what: &str, server: &str) -> anyhow::Result<Vec<Figure>> {
        let bare = self.parts().await?.pipeline.tasks_per_s;
        // Tasks a second and CPU a task at each rate.
        let mut steps: Vec<[f64; 2]> = Vec::new();
        for share in [0.05, 0.1, 0.2, 0.4, 0.8, 1.6] {
            let rate = whole(share * bare);
            let words = format!("--scenario sustained --rate {rate} --duration 6s --grace 5s {server}");
            let report = self.pressed(&words).await?;
            steps.push([report.rates.end_to_end_per_s, cpu_us(&report)?]);
            // Half of what is held has to have been measured.
            if !is_held(&report, rate) && steps.len() > 2 {
                break;
            }
        }
        let [.., half, held, over] = &*steps else { anyhow::bail!("too few rates were measured") };
        let ([_, half_us], [held_per_s, _], [over_per_s, over_us]) = (half, held, over);
        let peak = held_per_s.max(*over_per_s);
        let throughput = Figure::at_least(
            format!("throughput over the peak: {what}"),
            Unit::Share,
            over_per_s / peak,
            0.9,
        );
        let cost = Figure::at_most(
            format!("CPU a task over half load: {what}"),
            Unit::Times,
            over_us / half_us,
            1.3,
        );
        Ok(vec![
            throughput.of(format_args!("{over_per_s:.0} of {peak:.0}/s")),
            cost.of(format_args!("{over_us:.0} and {half_us:.0} us")),
        ])
    }

    async fn push(&self, what: &str) -> anyhow::Result<Figure> {
        let words = format!("--scenario sustained --rate {COST_RATE} {FOR} {ONE}");
        let pull = cpu_us(&self.kept(&words).await?)?;
        let push = cpu_us(&self.kept(&format!("{words} --executors 0 --subscribers 4")).await?)?;
        let figure = Figure::at_most(what, Unit::Times, push / pull, 1.3);
        Ok(figure.of(format_args!("{push:.0} and {pull:.0} us")))
    }

    async fn takeover(&self, what: &str) -> anyhow::Result<Figure> {
        let words = format!(
            "--scenario sustained --rate 500 --duration 16s --lease 3s {ONE} --engines 2 --kill-one-after 8s"
        );
        let report = self.kept(&words).await?;
        Ok(Figure::at_most(what, Unit::Seconds, report.lateness.max_ms / 1e3, 5.0))
    }

    async fn engine_stopped(&self, what: &str) -> anyhow::Result<Figure> {
        let words =
            format!("--scenario sustained --rate 500 --duration 16s {ONE} --engines 2 --stop-one-after 8s");
        let report = self.kept(&words).await?;
        Ok(Figure::at_most(what, Unit::Seconds, report.lateness.max_ms / 1e3, 3.0))
    }

    async fn outage(&self, what: &str, (outage, lasts): (Cause, &str), bar_s: f64) -> anyhow::Result<Figure> {
        use clap::ValueEnum as _;
        let name = outage.to_possible_value().context("each outage has a name")?;
        // What is due further ahead is in Redis; what is due during the outage has been there before it.
        let words = format!(
            "--scenario sustained --rate 200 --ahead 12s --duration 18s {ONE} --engines 2 --outage {} \
             --outage-after 15s --outage-for {lasts}{}",
            name.get_name(),
            if outage.is_of_a_way() { " --proxied" } else { "" },
        );
        let report = self.kept(&words).await?;
        let lasted_ms = report.outage.as_ref().and_then(|outage| outage.lasted_ms).context("it is over")?;
        // Nothing is handed over without the store: the time it was unavailable is not counted.
        let away_ms = if outage == Cause::MysqlKill { lasted_ms } else { 0.0 };
        let late_s = (report.lateness.max_ms - away_ms).max(0.0) / 1e3;
        let figure = Figure::at_most(what, Unit::Seconds, late_s, bar_s);
        Ok(figure.of(format_args!("p99 {:.1} s", report.lateness.p99_ms / 1e3)))
    }

    async fn flood(&self, what: &str, server: &str) -> anyhow::Result<Figure> {
        let words = format!("run --scenario flood --rate 250 --duration 10s --rounds 1 {server}");
        let LoadCommand::Run(mut options) = self.parsed(&words)? else { anyhow::bail!("the words say run") };
        // Whether it is too much is said by the bar below.
        options.flood.within_percent = u32::MAX;
        let report = Box::pin(perform(&FloodScenario(&options))).await?.kept()?;
        let (flooded, peace) =
            (report.flooded.other.start_delay.p99_ms, report.peace.other.start_delay.p99_ms);
        let figure = Figure::at_most(what, Unit::Times, report.p99_ratio, 1.2);
        Ok(figure.of(format_args!("{flooded:.1} and {peace:.1} ms")))
    }

    async fn chaos(&self, what: &str, words: &str) -> anyhow::Result<Figure> {
        let words = format!("chaos --minutes 0.4 --longest 5s --json {words}");
        let LoadCommand::Chaos(options) = self.parsed(&words)? else { anyhow::bail!("the words say chaos") };
        let report = Box::pin(chaos(&options)).await?;
        anyhow::ensure!(report.ok, "{}", report.broken.join("; "));
        let recoveries = report.faults.iter().filter_map(|fault| fault.recovered_after_s);
        let (count, slowest_s) = recoveries.fold((0, 0.0_f64), |(count, most), s| (count + 1, most.max(s)));
        anyhow::ensure!(count > 0, "no fault happened");
        Ok(Figure::at_most(what, Unit::Seconds, slowest_s, 30.0).of(format_args!("{count} faults")))
    }
}

const NO_PROC: &str = "CPU time and memory are read from /proc, which this system has not";

pub(super) fn is_held(report: &RunReport, rate: u64) -> bool {
    report.rates.end_to_end_per_s >= rate as f64 * HELD
}

/// The processor time of engines, MariaDB and Redis, per task that was done.
fn cpu_us(report: &RunReport) -> anyhow::Result<f64> {
    let engines = report.server.context(NO_PROC)?;
    let us = |part: Option<ProcessReport>| part.map_or(0.0, |part| part.cpu_us_per_task);
    let planned = engines.cpu_us_per_task + us(report.mariadb) + us(report.redis);
    Ok(planned * report.tasks as f64 / report.counts.outcomes_accepted.max(1) as f64)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate is small and positive")]
pub(super) fn whole(rate: f64) -> u64 {
    rate.max(1.0) as u64
}

/// Measures the wheel by a separate program, beside this one: it may use memory that nothing else has touched, and
/// nothing here depends on a crate of the product.
async fn wheel() -> anyhow::Result<Vec<Figure>> {
    let program = std::env::current_exe()?.with_file_name("wheel_bar");
    let hint = "cargo build --release -p punctual-benches --bin wheel_bar";
    anyhow::ensure!(program.is_file(), "there is no {}: {hint}", program.display());
    let mut command = tokio::process::Command::new(&program);
    let output = command.kill_on_drop(true).output().await.context("starting wheel_bar")?;
    anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let measured: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("wheel_bar answers JSON")?;
    let value =
        |name: &str| measured.get(name).and_then(serde_json::Value::as_f64).context("wheel_bar says it");
    let heap = [value("heap_insert_ns")?, value("heap_expire_ns")?];
    let [heap_insert, heap_expire] = heap;
    let of_heap = |figure: Figure, ns: f64| figure.of(format_args!("BinaryHeap {ns:.0} ns"));
    let wheel = |name: &str| format!("wheel at 10 million timers: {name}");
    Ok(vec![
        of_heap(Figure::at_most(wheel("insert"), Unit::Ns, value("insert_ns")?, 30.0), heap_insert),
        Figure::at_most(wheel("cancel"), Unit::Ns, value("cancel_ns")?, 25.0),
        of_heap(Figure::at_most(wheel("expire"), Unit::Ns, value("expire_ns")?, 80.0), heap_expire),
        Figure::at_most(wheel("a timer, 8 B of payload in it"), Unit::Bytes, value("bytes")?, 40.0),
        Figure::at_most("the worst tick at a million timers", Unit::Ms, value("worst_tick_ms")?, 1.0),
    ])
}
