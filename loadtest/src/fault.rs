//! The faults of engines in mid-run: one is killed, one is paused, one is stopped as an operator does; each happens
//! to an engine of its own, from the last one down, so that the first is always there. Reports what was done; the
//! checker decides whether the promises held.

use crate::{
    check::Aftermath,
    clock::now_us,
    engine::SpawnedEngine,
    options::{Usage, parse_ms},
    outage::cause::Cause,
    progress::note,
    report::FaultReport,
};
use clap::Args;

/// The time limit from SIGTERM to the end: a bounded drain.
const STOP_LIMIT_US: i64 = 60_000_000;

/// What is done to engines in mid-run; executors and inserts continue at those that are left.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Faults (each needs an engine of its own, and one stays)")]
pub(crate) struct FaultOptions {
    /// kill -9 one engine this long after the start
    #[arg(long, conflicts_with_all = ["url", "insert_only"], value_parser = parse_ms)]
    pub(crate) kill_one_after: Option<i64>,
    /// SIGSTOP one engine this long after the start
    #[arg(long, conflicts_with_all = ["url", "insert_only"], value_parser = parse_ms)]
    pub(crate) pause_one_after: Option<i64>,
    /// SIGCONT it this long after that
    #[arg(long, default_value = "20s", value_parser = parse_ms)]
    pub(crate) pause_for: i64,
    /// SIGTERM one engine this long after the start; it must end with 0
    #[arg(long, conflicts_with_all = ["url", "insert_only"], value_parser = parse_ms)]
    pub(crate) stop_one_after: Option<i64>,
    /// What happens to the private Redis or MariaDB in mid-run
    #[arg(long, value_enum, conflicts_with_all = ["url", "insert_only"])]
    pub(crate) outage: Option<Cause>,
    /// So long after the start
    #[arg(long, default_value = "5s", value_parser = parse_ms)]
    pub(crate) outage_after: i64,
    /// It is started again, or continues, this long after that
    #[arg(long, default_value = "10s", value_parser = parse_ms)]
    pub(crate) outage_for: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultKind {
    Kill,
    Stop,
    Pause { for_us: i64 },
}

/// Something that is done to an engine, and how far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fault {
    what: FaultKind,
    engine: usize,
    after_us: i64,
    begun_us: Option<i64>,
    ended_us: Option<i64>,
    is_unclean: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Faults {
    start_us: i64,
    /// The faults by the instant at which they begin.
    all: Vec<Fault>,
}

impl Faults {
    pub(crate) fn new(options: &FaultOptions, engines: usize, start_us: i64) -> Result<Self, Usage> {
        let pause = FaultKind::Pause { for_us: options.pause_for * 1_000 };
        let asked = [
            (options.kill_one_after, FaultKind::Kill),
            (options.pause_one_after, pause),
            (options.stop_one_after, FaultKind::Stop),
        ];
        let mut asked: Vec<(i64, FaultKind)> =
            asked.into_iter().filter_map(|(at, what)| Some((at?, what))).collect();
        asked.sort_by_key(|(after_ms, _)| *after_ms);
        if !asked.is_empty() && asked.len() >= engines {
            return Err(Usage(
                "each fault needs an engine of its own, and one must stay: give more --engines",
            ));
        }
        let fault = |(n, (after_ms, what)): (usize, (i64, FaultKind))| Fault {
            what,
            engine: engines - 1 - n,
            after_us: after_ms * 1_000,
            begun_us: None,
            ended_us: None,
            is_unclean: false,
        };
        Ok(Self { start_us, all: asked.into_iter().enumerate().map(fault).collect() })
    }

    /// True if all faults are over.
    pub(crate) fn are_over(&self) -> bool {
        self.all.iter().all(|fault| fault.ended_us.is_some())
    }

    /// Begins and ends what is due. Answers whether something began: from then on the aftermath is watched.
    pub(crate) async fn turn(&mut self, engines: &mut [SpawnedEngine]) -> anyhow::Result<bool> {
        let mut has_begun = false;
        for fault in &mut self.all {
            let Some(engine) = engines.get_mut(fault.engine) else { continue };
            if fault.ended_us.is_some() {
                continue;
            }
            match fault.begun_us {
                None if now_us() >= self.start_us + fault.after_us => {
                    fault.begin(engine).await?;
                    has_begun = true;
                }
                None => {}
                Some(begun_us) => fault.end_when_due(engine, begun_us).await?,
            }
        }
        Ok(has_begun)
    }

    /// `aftermaths`: what was seen after each beginning, in order.
    pub(crate) fn reports(&self, aftermaths: &[Aftermath]) -> Vec<FaultReport> {
        let mut aftermaths = aftermaths.iter();
        let begun = self.all.iter().filter(|fault| fault.begun_us.is_some());
        begun.map(|fault| fault.report(self.start_us, aftermaths.next())).collect()
    }

    /// The failures of the engines themselves, in words.
    pub(crate) fn broken(&self) -> Vec<String> {
        let unclean = self.all.iter().filter(|fault| fault.is_unclean);
        unclean
            .map(|fault| format!("engine {} was asked to stop and did not end with 0", fault.engine))
            .collect()
    }
}

impl Fault {
    async fn begin(&mut self, engine: &mut SpawnedEngine) -> anyhow::Result<()> {
        self.begun_us = Some(now_us());
        note(&format!("{} of engine {}", self.name(), self.engine));
        match self.what {
            FaultKind::Kill => {
                engine.kill().await?;
                self.ended_us = Some(now_us());
                Ok(())
            }
            FaultKind::Stop => engine.stop().await,
            FaultKind::Pause { .. } => engine.pause().await,
        }
    }

    async fn end_when_due(&mut self, engine: &mut SpawnedEngine, begun_us: i64) -> anyhow::Result<()> {
        match self.what {
            FaultKind::Pause { for_us } if now_us() >= begun_us + for_us => {
                engine.resume().await?;
                self.ended_us = Some(now_us());
            }
            FaultKind::Stop => {
                let status = engine.ended()?;
                let is_out_of_time = now_us() > begun_us + STOP_LIMIT_US;
                if status.is_some() || is_out_of_time {
                    self.ended_us = Some(now_us());
                    self.is_unclean = !status.is_some_and(|status| status.success());
                }
                if self.is_unclean {
                    note(&format!("last words of engine {}:\n{}", self.engine, engine.log_tail()));
                }
            }
            FaultKind::Kill | FaultKind::Pause { .. } => {}
        }
        Ok(())
    }

    const fn name(&self) -> &'static str {
        match self.what {
            FaultKind::Kill => "kill",
            FaultKind::Stop => "stop",
            FaultKind::Pause { .. } => "pause",
        }
    }

    fn report(&self, start_us: i64, aftermath: Option<&Aftermath>) -> FaultReport {
        let ms = |span_us: i64| span_us as f64 / 1e3;
        FaultReport {
            what: self.name().into(),
            engine: self.engine,
            after_s: self.begun_us.map_or(0.0, |at| ms(at - start_us) / 1e3),
            lasted_ms: self.begun_us.zip(self.ended_us).map(|(from, to)| ms(to - from)),
            first_task_after_ms: aftermath.and_then(|aftermath| aftermath.first_after_us()).map(ms),
            longest_gap_ms: aftermath.map_or(0.0, |aftermath| ms(aftermath.longest_gap_us)),
            late_until_ms: aftermath.and_then(|aftermath| aftermath.late_until_us()).map(ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{LoadCommand, Options};
    use clap::Parser as _;

    fn faults(words: &str, engines: usize) -> Result<Faults, Usage> {
        let words = format!("loadtest run --scenario burst --spawn {words}");
        let LoadCommand::Run(options) = Options::try_parse_from(words.split_whitespace()).unwrap().command
        else {
            unreachable!("the words say run")
        };
        Faults::new(&options.faults, engines, 0)
    }

    #[test]
    fn each_happens_to_an_engine_of_its_own_and_the_first_is_spared() {
        let this_faults = faults("--stop-one-after 3s --kill-one-after 2s --pause-one-after 1s", 4).unwrap();
        let reported: Vec<_> =
            this_faults.all.iter().map(|fault| (fault.name(), fault.engine, fault.after_us)).collect();
        assert_eq!(reported, [("pause", 3, 1_000_000), ("kill", 2, 2_000_000), ("stop", 1, 3_000_000)]);
        assert_eq!(this_faults.all[0].what, FaultKind::Pause { for_us: 20_000_000 });
        assert!(!this_faults.are_over() && this_faults.reports(&[]).is_empty());
        assert!(faults("--stop-one-after 3s --kill-one-after 2s", 2).is_err());
        assert!(faults("--kill-one-after 2s", 1).is_err());
        assert!(faults("", 1).unwrap().are_over());
    }

    const CLEAN: &str = "trap 'exit 0' TERM; echo here; while read -r _; do :; done";
    const UNCLEAN: &str = "echo here; while read -r _; do :; done";

    async fn engines<const N: usize>(scripts: [&str; N]) -> Vec<SpawnedEngine> {
        let mut engines = Vec::new();
        for script in scripts {
            engines.push(SpawnedEngine::of_script(script).await);
        }
        engines
    }

    async fn turn_until_over(faults: &mut Faults, engines: &mut [SpawnedEngine]) {
        while !faults.are_over() {
            faults.turn(engines).await.unwrap();
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_killed_engine_is_gone_a_stopped_one_ends_well_and_no_other_is_touched() {
        let mut engines = engines([UNCLEAN, CLEAN, UNCLEAN]).await;
        let mut faults = faults("--kill-one-after 0s --stop-one-after 1ms", 3).unwrap();
        turn_until_over(&mut faults, &mut engines).await;
        assert_eq!(faults.broken(), [""; 0]);
        assert!(engines[0].ended().unwrap().is_none());
        assert!(engines[1].ended().unwrap().unwrap().success());
        assert!(!engines[2].ended().unwrap().unwrap().success());
        engines.iter_mut().for_each(|engine| engine.check_alive().unwrap());
        let reported: Vec<_> =
            faults.reports(&[]).into_iter().map(|report| (report.what, report.engine)).collect();
        assert_eq!(reported, [("kill".to_owned(), 2), ("stop".to_owned(), 1)]);
    }

    #[tokio::test]
    async fn an_engine_that_does_not_end_well_when_it_is_asked_to_is_told() {
        let mut engines = engines([CLEAN, UNCLEAN]).await;
        let mut faults = faults("--stop-one-after 0s", 2).unwrap();
        turn_until_over(&mut faults, &mut engines).await;
        assert_eq!(faults.broken(), ["engine 1 was asked to stop and did not end with 0"]);
    }

    #[tokio::test]
    #[cfg(target_os = "linux")]
    async fn a_paused_engine_stands_still_until_its_pause_is_over() {
        let mut engines = engines([CLEAN, CLEAN]).await;
        let state = |engine: &SpawnedEngine| {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", engine.pid().unwrap())).unwrap();
            stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
        };
        let mut faults = faults("--pause-one-after 0s --pause-for 1h", 2).unwrap();
        assert!(faults.turn(&mut engines).await.unwrap());
        assert!(!faults.turn(&mut engines).await.unwrap(), "begun only once");
        assert!(!faults.are_over());
        // A signal is on its way for a moment.
        while state(&engines[1]) != 'T' {
            tokio::task::yield_now().await;
        }
        assert_ne!(state(&engines[0]), 'T');
        faults.all[0].what = FaultKind::Pause { for_us: 0 };
        turn_until_over(&mut faults, &mut engines).await;
        while state(&engines[1]) == 'T' {
            tokio::task::yield_now().await;
        }
        assert!(faults.reports(&[])[0].lasted_ms > Some(0.0));
    }
}
