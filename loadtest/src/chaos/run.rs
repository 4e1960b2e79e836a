//! One run: load begins, faults come and go, each is waited for until all has recovered; then the load ends, all becomes
//! quiet, and the records are judged.

use super::{
    book::{Book, CallerAnswer},
    change,
    field::Field,
    healthy::{self, Away, Window},
    history,
    inflict::{self, Effect},
    judge::{self, Broken, Circumstances, TaskEnd},
    load, look,
    plan::{FaultPlan, PlanStep, PlannedFault, What},
    report::{ChaosCounts, ChaosReport, FaultLine, in_words},
    stack::Stack,
    tasks::LANES,
    work,
};
use crate::{
    chaos::ChaosOptions,
    clock::{now_ms, now_us},
    http::{Connection, Target},
    options::{Hot, Store},
    progress::{LoadProgress, note},
};
use anyhow::Context as _;
use punctual_test_servers::patience::HANG_LIMIT;
use std::{
    collections::{BTreeMap, HashMap},
    io::Write as _,
    sync::Arc,
    time::Duration,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinSet,
};

const TICK: Duration = Duration::from_millis(20);
/// The lateness from which a task is late: the maximum time on its way when nothing is broken.
const LATE_MS: i64 = 1_500;
/// Between two tasks that are due, at the least rate: by then one has met what was broken.
const CAME_WITHIN_MS: i64 = 200;
/// The lateness after which the engines are asked about a task: it may be over without a receipt.
const ASKED_AFTER_MS: i64 = 4_000;
const ASKED_MAX: usize = 200;
/// The time limit of a step, with its recovery.
const STEP_LIMIT_US: i64 = 300_000_000;
/// The time limit from the last recovery until nothing is in flight and no engine complains.
const QUIET_LIMIT_US: i64 = 180_000_000;
/// The deviation that an engine accepts of its clock (issue 14.8).
const CLOCK_BOUND_MS: i64 = 250;
const PARTITIONS: u64 = 16;
/// So many tasks are asked for one by one.
const REPORTED_MAX: usize = 400;

/// Also when it is stopped, no process is left behind.
pub(crate) async fn chaos(options: &ChaosOptions) -> anyhow::Result<ChaosReport> {
    let mut terminated = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupted = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
    tokio::select! {
        report = whole(options) => report,
        _ = terminated.recv() => anyhow::bail!("terminated"),
        _ = interrupted.recv() => anyhow::bail!("interrupted"),
    }
}

async fn whole(options: &ChaosOptions) -> anyhow::Result<ChaosReport> {
    let whats = options.whats()?;
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    let mut run = ChaosRun::start(options, seed, &whats).await?;
    run.say(&format!("seed {seed}"))?;
    let plan =
        FaultPlan::new(seed, whats, options.engines(), options.databases()).lasting_at_most(options.longest);
    run.broken_by(plan).await?;
    run.until_quiet().await?;
    run.judged(seed).await
}

/// The end of a step: two faults are recovered from when both are over, and not before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RunOver {
    ended_us: i64,
    /// A fault that is over as soon as it has happened shows what it broke only when something is late.
    seen_from_us: i64,
}

impl RunOver {
    /// `None` if nothing happened.
    fn of(step: &PlanStep, ends_us: impl Iterator<Item = i64>) -> Option<Self> {
        let ended_us = ends_us.max()?;
        let is_instant = step.faults.iter().all(|fault| fault.what.is_instant());
        let shows_after_ms = if is_instant { LATE_MS + CAME_WITHIN_MS } else { 0 };
        Some(Self { ended_us, seen_from_us: ended_us + shows_after_ms * 1_000 })
    }
}

/// A fault of a way that nothing else came with: all that is late is its doing.
fn alone(step: &PlanStep) -> Option<&PlannedFault> {
    match step.faults.as_slice() {
        [one] if one.what.is_of_way() => Some(one),
        _ => None,
    }
}

struct ChaosRun<'a> {
    options: &'a ChaosOptions,
    stack: Stack,
    field: Arc<Field>,
    workers: JoinSet<anyhow::Result<()>>,
    begun_us: i64,
    ends_us: i64,
    lines: Vec<FaultLine>,
    away: Vec<Away>,
    /// The window of each fault of a way that nothing else came with.
    windows: Vec<Window>,
    /// The spans in which nothing was broken.
    peace: Vec<(i64, i64)>,
    around: Circumstances,
    broken: Vec<Broken>,
    quiet_after_s: f64,
    progress: LoadProgress,
    asking: JoinSet<()>,
    /// True from the first such fault of a step until its recovery.
    is_a_server_broken: bool,
}

impl<'a> ChaosRun<'a> {
    async fn start(options: &'a ChaosOptions, seed: u64, whats: &[What]) -> anyhow::Result<Self> {
        let stack = Stack::start(options, whats).await?;
        let target = Target::new(&stack.urls(), None, None)?;
        let field = Arc::new(Field::new(target, options.engines(), now_ms() * 1_000));
        for lane in LANES {
            look::set_queue(&field, lane, options.hand_over).await?;
        }
        let begun_us = now_us();
        #[expect(clippy::cast_possible_truncation, reason = "minutes are checked to be few")]
        let ends_us = begun_us + (options.minutes * 60e6) as i64;
        let mut workers = JoinSet::new();
        field.end_at(ends_us);
        let pace = load::InsertPace { rate: options.rate, seed };
        load::start(&field, pace, &mut workers);
        workers.spawn(change::change_all(Arc::clone(&field)));
        if let Some(user) = stack.user.clone() {
            workers.spawn(user.write_all(Arc::clone(&field), seed));
        }
        for lane in LANES {
            (0..options.engines()).for_each(|n| work::start(&field, lane, n, &mut workers));
        }
        let lease_ms = i64::try_from(work::LEASE_MS).unwrap_or(i64::MAX);
        let around = Circumstances { clock_faults_us: Vec::new(), clock_bound_ms: CLOCK_BOUND_MS, lease_ms };
        Ok(Self {
            options,
            stack,
            field,
            workers,
            begun_us,
            ends_us,
            lines: Vec::new(),
            away: Vec::new(),
            windows: Vec::new(),
            peace: Vec::new(),
            around,
            broken: Vec::new(),
            quiet_after_s: 0.0,
            progress: LoadProgress::new(options.progress),
            asking: JoinSet::new(),
            is_a_server_broken: false,
        })
    }

    fn since_s(&self, at_us: i64) -> f64 {
        (at_us - self.begun_us) as f64 / 1e6
    }

    /// Prints a line at once, so that a person can follow.
    fn say(&self, line: &str) -> anyhow::Result<()> {
        if !self.options.json {
            let mut out = std::io::stdout().lock();
            writeln!(out, "{line}").and_then(|()| out.flush()).context("writing a line")?;
        }
        Ok(())
    }

    /// Faults until the time is over and enough have come; none begins in the last seconds.
    async fn broken_by(&mut self, mut plan: FaultPlan) -> anyhow::Result<()> {
        let planned_us = self.ends_us;
        self.wait_ms(2_000).await?;
        for steps in 0.. {
            let is_enough = steps >= self.options.steps_min;
            if is_enough && now_us() >= planned_us {
                break;
            }
            // Load continues beside every one.
            self.end_at(if is_enough { planned_us } else { planned_us.max(now_us() + STEP_LIMIT_US) });
            let step = plan.next_step();
            self.step(&step).await?;
            let from_us = now_us();
            self.wait_ms(step.pause_ms.max(self.options.rest)).await?;
            self.peace.push((from_us, now_us()));
        }
        self.end_at(planned_us);
        Ok(())
    }

    fn end_at(&mut self, ends_us: i64) {
        self.ends_us = ends_us;
        self.field.end_at(ends_us);
    }

    async fn step(&mut self, step: &PlanStep) -> anyhow::Result<()> {
        self.is_a_server_broken = step.faults.iter().any(|fault| fault.what.breaks_a_server());
        let begun_us = now_us();
        let mut going_on: Vec<(&PlannedFault, FaultLine, i64)> = Vec::new();
        for fault in &step.faults {
            let mut line = FaultLine::new(fault, self.since_s(now_us()));
            let restarted = inflict::log_to_pipe(&mut self.stack, fault).await?;
            self.took(restarted, fault);
            match inflict::begin(&mut self.stack, fault).await? {
                Effect::Impossible(why) => {
                    line.impossible = Some(why);
                    self.print_line(line)?;
                }
                done => {
                    self.took(done, fault);
                    going_on.push((fault, line, now_us()));
                }
            }
        }
        // A stop ends when the engine has ended: not while what it waits for is kept from it.
        going_on.sort_by_key(|(fault, ..)| (fault.what == What::EngineStop, fault.for_ms));
        let mut done = Vec::new();
        for (fault, mut line, from_us) in going_on {
            self.wait_until(from_us + fault.for_ms * 1_000, &step.faults).await?;
            let ended = inflict::end(&mut self.stack, fault).await?;
            self.took(ended, fault);
            line.for_s = (now_us() - from_us) as f64 / 1e6;
            if fault.what == What::Clock {
                self.around.clock_faults_us.push((begun_us, now_us()));
            }
            if fault.what.takes_database_away() && step.faults.len() == 1 {
                let database = u64::try_from(fault.database).unwrap_or(u64::MAX);
                let (what, whom, to_us) = (fault.what, fault.whom(), now_us());
                self.away.push(Away { what, whom, database, from_us, to_us });
            }
            done.push((line, from_us, now_us()));
        }
        let Some(over) = RunOver::of(step, done.iter().map(|(_, _, ended_us)| *ended_us)) else {
            self.is_a_server_broken = false;
            return Ok(());
        };
        let recovered_after_s = self.recovered(over).await?;
        self.is_a_server_broken = false;
        if let (Some(fault), [(_, from_us, _)]) = (alone(step), done.as_slice()) {
            let what = format!("{} {}", fault.what.name(), fault.whom());
            self.windows.push(Window {
                what,
                at_s: self.since_s(*from_us),
                from_us: *from_us,
                to_us: now_us(),
            });
        }
        for (line, ..) in done {
            self.came_to_an_end(FaultLine { recovered_after_s, ..line })?;
        }
        Ok(())
    }

    fn came_to_an_end(&mut self, line: FaultLine) -> anyhow::Result<()> {
        if line.recovered_after_s.is_none() {
            let overdue = self.field.book.lock().overdue(now_ms(), LATE_MS);
            let text =
                format!("{} {} is not recovered from: {} tasks overdue", line.what, line.whom, overdue.len());
            self.broken.push(Broken { promise: "recovery", task: overdue.first().copied(), text });
        }
        self.print_line(line)
    }

    fn took(&mut self, done: Effect, fault: &PlannedFault) {
        if let Effect::Broke(text) = done {
            let text = format!("{}: {text}", fault.whom());
            self.broken.push(Broken { promise: "stop", task: None, text });
        }
    }

    fn print_line(&mut self, line: FaultLine) -> anyhow::Result<()> {
        let text = line.line();
        self.lines.push(line);
        self.say(&text)
    }

    /// Seconds from the end of the last fault of a step until everything due by then has come, and each engine is ready.
    async fn recovered(&mut self, over: RunOver) -> anyhow::Result<Option<f64>> {
        self.wait_until(over.seen_from_us, &[]).await?;
        let until_us = over.ended_us + self.recovery_limit_us();
        let mut is_first_look = true;
        loop {
            let at_us = now_us();
            let (at_ms, late_ms) = self.looks_for_late(over);
            let is_on_time = self.field.book.lock().overdue(at_ms, late_ms).is_empty();
            if is_on_time && look::are_ready(&self.field).await {
                // What broke nothing that could be seen was over at once, however long it was looked for.
                let after_us = if is_first_look && over.seen_from_us > over.ended_us {
                    0
                } else {
                    at_us - over.ended_us
                };
                return Ok(Some(after_us as f64 / 1e6));
            }
            if at_us > until_us {
                return Ok(None);
            }
            is_first_look = false;
            self.tick(&[]).await?;
        }
    }

    fn recovery_limit_us(&self) -> i64 {
        let hang_limit_ms = i64::try_from(HANG_LIMIT.as_millis()).unwrap_or(i64::MAX);
        1_000 * if self.options.promises_only { hang_limit_ms } else { self.options.recover_within }
    }

    /// Until nothing is late by so much, at which time: where times do not decide, everything that was due by the end of the
    /// fault, however late what has become due since.
    fn looks_for_late(&self, over: RunOver) -> (i64, i64) {
        if self.options.promises_only { (over.seen_from_us / 1_000, 0) } else { (now_ms(), LATE_MS) }
    }

    async fn wait_ms(&mut self, ms: i64) -> anyhow::Result<()> {
        self.wait_until((now_us() + ms * 1_000).min(self.ends_us), &[]).await
    }

    async fn wait_until(&mut self, at_us: i64, faults: &[PlannedFault]) -> anyhow::Result<()> {
        while now_us() < at_us {
            self.tick(faults).await?;
        }
        Ok(())
    }

    /// Checks everything that should be running.
    async fn tick(&mut self, faults: &[PlannedFault]) -> anyhow::Result<()> {
        tokio::time::sleep(TICK).await;
        while let Some(ended) = self.workers.try_join_next() {
            ended.context("a worker panicked")??;
        }
        for (n, member) in self.stack.members.iter_mut().enumerate() {
            if faults.iter().any(|fault| fault.engine == Some(n)) {
                continue;
            }
            if let Err(error) = member.engine.check_alive() {
                // No engine starts without its servers: whatever supervises it starts it again, as here, until they are back.
                if self.is_a_server_broken && member.engine.has_refused_to_start()? {
                    member.engine.begin_again()?;
                    continue;
                }
                let text = format!("engine {n} has ended by itself: {error:#}");
                self.broken.push(Broken { promise: "alive", task: None, text });
                member.engine.begin_again()?;
            }
        }
        self.ask_about_overdue();
        let book = self.field.book.lock();
        let line = format!(
            "{} acknowledged, {} being inserted, {} executions, {} open, {} overdue, {} in hand",
            book.acked,
            book.unacked,
            book.executions,
            book.open(),
            book.overdue(now_ms(), LATE_MS).len(),
            book.in_hand,
        );
        drop(book);
        self.progress.say(&line);
        Ok(())
    }

    /// Asks about tasks that are long overdue: they may be over, dead without a receipt, or cancelled by an answer
    /// that was lost.
    fn ask_about_overdue(&mut self) {
        while self.asking.try_join_next().is_some() {}
        if !self.asking.is_empty() {
            return;
        }
        let field = Arc::clone(&self.field);
        let overdue = field.book.lock().overdue(now_ms(), ASKED_AFTER_MS);
        if overdue.is_empty() {
            return;
        }
        self.asking.spawn(async move {
            let mut connection = Connection::new(field.target.beginning_at(fastrand::usize(..field.engines)));
            for n in overdue.into_iter().take(ASKED_MAX) {
                let reference = field.book.lock().tracks.get(n).and_then(|track| track.reference.clone());
                let Some(reference) = reference else { continue };
                match look::is_task_over(&mut connection, &reference).await {
                    Some(true) => field.book.lock().settled(n),
                    Some(false) => {}
                    None => break,
                }
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        });
    }

    /// The load is over: what is under way comes to its end, and then nothing stirs.
    async fn until_quiet(&mut self) -> anyhow::Result<()> {
        let from_us = now_us();
        let partitions = (self.options.store == Store::Mysql).then_some(PARTITIONS);
        let mut unrest = Vec::new();
        let mut next_us = 0;
        loop {
            let at_us = now_us();
            if at_us > from_us + QUIET_LIMIT_US / 2 {
                self.field.give_up();
            }
            let left = {
                let book = self.field.book.lock();
                book.unacked + book.open() + book.in_hand + book.changing
            };
            if left == 0 && at_us >= next_us {
                unrest = look::unrest(&self.field, partitions).await;
                if let Some(user) = &self.stack.user {
                    unrest.extend(user.unrest().await);
                }
                if unrest.is_empty() {
                    self.quiet_after_s = (now_us() - from_us) as f64 / 1e6;
                    return Ok(());
                }
                next_us = now_us() + 500_000;
            }
            if at_us > from_us + QUIET_LIMIT_US {
                break;
            }
            self.tick(&[]).await?;
        }
        let texts = unrest.into_iter().chain([self.left()]).filter(|text| !text.is_empty());
        self.broken.extend(texts.map(|text| Broken { promise: "quiet", task: None, text }));
        Ok(())
    }

    fn left(&self) -> String {
        let book = self.field.book.lock();
        let (unacked, open, in_hand) = (book.unacked, book.open(), book.in_hand);
        if unacked + open + in_hand == 0 {
            return String::new();
        }
        format!(
            "{unacked} inserts without an answer, {open} tasks that did not come, {in_hand} in executors' hands"
        )
    }

    async fn judged(mut self, seed: u64) -> anyhow::Result<ChaosReport> {
        let ends = look::ends(&self.field).await?;
        let databases = look::databases(&self.field).await?;
        let mut broken = std::mem::take(&mut self.broken);
        broken.extend(judge::judge(&self.field.book.lock(), &ends, &self.around));
        let (recording, history) = history::judged(&self.field, &ends, &self.around, &mut broken);
        let mut inbox = None;
        if let Some(user) = &self.stack.user {
            let (found, of_inbox) = user.judged(&self.field, &self.peace).await?;
            inbox = Some(found);
            broken.extend(of_inbox);
        }
        let is_ok = broken.is_empty();
        if !is_ok {
            self.write_records(&broken).await?;
        }
        history::write_if(!is_ok || self.options.keep, &recording, self.stack.path())?;
        if self.options.keep {
            self.write_late(&databases).await?;
        }
        self.workers.shutdown().await;
        self.asking.shutdown().await;
        let logs = self.stack.end(!is_ok || self.options.keep).await?;
        let (promises, reported) = in_words(&broken);
        let book = self.field.book.lock();
        let name = |is_first, first: &str, second: &str| if is_first { first } else { second }.to_owned();
        Ok(ChaosReport {
            seed,
            store: name(self.options.store == Store::Sqlite, "sqlite", "mysql"),
            hot: name(self.options.hot() == Hot::Memory, "memory", "redis"),
            engines: self.options.engines(),
            databases: self.options.databases(),
            ok: is_ok,
            broken: reported,
            promises,
            counts: counts(&book, &ends, &self.lines),
            history,
            faults: self.lines,
            lateness: book.lateness.percentiles(),
            healthy: healthy::lateness(&book, &databases, &self.away, &self.peace),
            ways: healthy::of_windows(&book, &databases, &self.windows),
            inbox,
            quiet_after_s: self.quiet_after_s,
            logs: logs.map(|logs| logs.display().to_string()),
        })
    }

    /// Writes the late tasks of healthy databases, with the histories of the first, beside the logs.
    async fn write_late(&self, databases: &HashMap<u16, u64>) -> anyhow::Result<()> {
        let mut file =
            std::fs::File::create(self.stack.path().join("late.jsonl")).context("the late tasks")?;
        let late = healthy::late(&self.field.book.lock(), databases, &self.away);
        let mut connection = Connection::new(self.field.target.clone());
        for (i, (n, mut value)) in late.into_iter().enumerate() {
            if i < REPORTED_MAX {
                let task = look::one(&self.field, &mut connection, n).await.ok().flatten();
                if let (Some(map), Some((_, task))) = (value.as_object_mut(), task) {
                    map.insert("task".to_owned(), task);
                }
            }
            writeln!(file, "{value}").context("the late tasks")?;
        }
        Ok(())
    }

    /// Writes the violations, with all facts of their tasks, beside the logs.
    async fn write_records(&self, broken: &[Broken]) -> anyhow::Result<()> {
        let path = self.stack.path().join("broken.jsonl");
        let mut file = std::fs::File::create(&path).context("the records of what broke")?;
        let mut connection = Connection::new(self.field.target.clone());
        for (i, broken) in broken.iter().enumerate() {
            let track = broken.task.and_then(|n| self.field.book.lock().tracks.get(n).cloned());
            // Their histories are asked for one by one: those of the first tell enough.
            let task = match broken.task {
                Some(n) if i < REPORTED_MAX => {
                    look::one(&self.field, &mut connection, n).await.ok().flatten()
                }
                _ => None,
            };
            let task = task.map(|(_, task)| task);
            writeln!(file, "{}", serde_json::json!({"broken": broken, "track": track, "task": task}))?;
        }
        let lines: Vec<String> = self.lines.iter().map(FaultLine::line).collect();
        let begun = format!("load began at {} ms\n", self.begun_us / 1_000);
        std::fs::write(self.stack.path().join("faults.txt"), begun + &lines.join("\n") + "\n")?;
        note(&format!("records are in {}", path.display()));
        Ok(())
    }
}

fn counts(book: &Book, ends: &HashMap<usize, TaskEnd>, lines: &[FaultLine]) -> ChaosCounts {
    let mut of_state = BTreeMap::new();
    ends.values().for_each(|end| *of_state.entry(end.state.clone()).or_insert(0) += 1);
    let changes = || book.tracks.iter().filter_map(|track| track.change.as_ref());
    let confirmed = |is_move| {
        let is_confirmed = |answer: &CallerAnswer| matches!(answer, CallerAnswer::Confirmed { .. });
        changes().filter(|change| change.to_ms.is_some() == is_move && is_confirmed(&change.answer)).count()
    };
    let impossible = lines.iter().filter(|line| line.impossible.is_some()).count();
    ChaosCounts {
        acknowledged: book.acked,
        unknown: book.tracks.len() - book.acked,
        executions: book.executions,
        outcomes_accepted: book.accepted,
        outcomes_stale: book.stale,
        lost_calls: book.lost_calls.len(),
        cancels_confirmed: confirmed(false),
        moves_confirmed: confirmed(true),
        changes_refused: changes().filter(|change| matches!(change.answer, CallerAnswer::Refused(_))).count(),
        changes_unknown: changes().filter(|change| matches!(change.answer, CallerAnswer::Unknown(_))).count(),
        ends: of_state,
        faults: lines.len() - impossible,
        faults_impossible: impossible,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(whats: &[What]) -> PlanStep {
        let fault = |what: &What| PlannedFault {
            what: *what,
            engine: Some(0),
            database: 0,
            for_ms: 0,
            by_ms: 0,
            nth: 0,
        };
        PlanStep { faults: whats.iter().map(fault).collect(), pause_ms: 0 }
    }

    #[test]
    fn a_pair_is_over_when_the_later_of_both_is() {
        let pair = step(&[What::RedisOneSilent, What::EnginePause]);
        // The one was over as soon as it had happened, the other five seconds later.
        let over = RunOver::of(&pair, [1_000, 5_001_000].into_iter()).unwrap();
        assert_eq!(over, RunOver { ended_us: 5_001_000, seen_from_us: 5_001_000 });
        assert!(alone(&pair).is_none());
        assert_eq!(RunOver::of(&pair, std::iter::empty()), None, "neither was possible");
    }

    #[test]
    fn what_is_over_at_once_is_looked_for_until_something_would_be_late() {
        let instant = step(&[What::RedisOneSilent]);
        let over = RunOver::of(&instant, [7].into_iter()).unwrap();
        assert!(over.seen_from_us > over.ended_us + LATE_MS * 1_000);
        assert_eq!(alone(&instant).map(|alone| alone.what), Some(What::RedisOneSilent));
    }
}
