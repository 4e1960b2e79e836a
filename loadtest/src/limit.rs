//! Checks that a limit of a queue holds while executors are killed: executors are processes of their own (`child`),
//! which log the beginning and the end of a handler, by their own clock; one of them after the other gets SIGKILL and
//! a successor. Must not trust the server: the number of concurrent runs is counted from the executors' logs.

use crate::{
    clock::{now_ms, now_us, seconds},
    http::{Connection, Target},
    insert::{InsertCall, insert_all},
    job::{JobThread, RunJob},
    options::{CommonOptions, ServerOptions, parse_ms},
    plan::{Frame, LoadShape, Plan},
    progress::{LoadProgress, note},
    report::LimitReport,
    run::{prepare, shape},
    scenario::{LoadSite, Scenario},
    server::Server,
};
use anyhow::Context as _;
use clap::Args;
use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};
use tokio::{
    process::{Child, Command},
    sync::watch,
};

#[derive(Args, Debug, Clone)]
pub(crate) struct LimitOptions {
    #[arg(long, default_value_t = 10_000)]
    pub(crate) tasks: usize,
    /// Attempts of the queue in flight at one time
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// Processes
    #[arg(long, default_value_t = 4)]
    pub(crate) executors: usize,
    /// Tasks that each of them runs at a time
    #[arg(long, default_value_t = 5)]
    pub(crate) hands: usize,
    /// How long a task takes
    #[arg(long, default_value = "10ms", value_parser = parse_ms)]
    pub(crate) work: i64,
    #[arg(long, default_value = "2s", value_parser = parse_ms)]
    pub(crate) lease: i64,
    /// An executor is killed about this often; 0: never
    #[arg(long, default_value = "1s", value_parser = parse_ms)]
    pub(crate) kill_every: i64,
    /// All must have finished by then
    #[arg(long, default_value = "300s", value_parser = parse_ms)]
    pub(crate) within: i64,
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

const ANSWER_LIMIT: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_millis(50);
/// The tasks are due this long after the start, all at once.
const AHEAD_MS: i64 = 3_000;
/// The time limit after the last task until no slot is held: leases of killed executors end, and the reconciler
/// checks every second.
const FREED_LIMIT_MS: i64 = 60_000;

/// One execution, from begin to end in microseconds of the executors' clock, or `None` if its executor was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Execution {
    pid: u32,
    from_us: i64,
    to_us: Option<i64>,
}

impl Scenario for LimitOptions {
    type Report = LimitReport;

    async fn prepare(&self) -> anyhow::Result<(Server, Target)> {
        prepare(&self.server, None).await
    }

    async fn measure(&self, site: &mut LoadSite) -> anyhow::Result<LimitReport> {
        let queue = self.common.queue.clone().unwrap_or_else(|| format!("limit-{}", now_ms()));
        let mut connection = Connection::new(site.target.clone());
        set_limit(&mut connection, &queue, self.limit).await?;
        let _job = insert(self, &site.target, queue.clone()).await?;
        let directory = tempfile::tempdir().context("a directory for the executors")?;
        let mut crew = Crew::new(self, &site.target, &queue, directory.path().join("executions"));
        let from_us = now_us();
        let finished = crew.work(&mut site.server, &mut connection, self).await?;
        let worked_s = seconds(now_us() - from_us);
        let slots_held = crew.until_freed(&mut connection).await?;
        crew.end().await?;
        let executions = read(&crew.log)?;
        Ok(LimitReport {
            tasks: self.tasks,
            limit: self.limit,
            most_at_once: most_at_once(&executions, &crew.killed_us),
            finished,
            executions: executions.len(),
            executors_killed: crew.kills,
            worked_s,
            slots_held,
        })
    }

    fn judge(&self, report: &LimitReport) -> Vec<String> {
        let mut broken = Vec::new();
        if usize::try_from(report.limit).is_ok_and(|limit| report.most_at_once > limit) {
            broken.push(format!("{} ran at once", report.most_at_once));
        }
        if usize::try_from(report.finished).is_ok_and(|finished| finished < report.tasks) {
            broken.push(format!("{} of {} finished", report.finished, report.tasks));
        }
        if report.slots_held > 0 {
            broken.push(format!("{} slots are still held", report.slots_held));
        }
        broken
    }
}

async fn set_limit(connection: &mut Connection, queue: &str, most: u32) -> anyhow::Result<()> {
    let body = format!(r#"{{"concurrency":{most}}}"#);
    let answer = connection.put(&format!("/v1/queues/{queue}"), body.as_bytes(), ANSWER_LIMIT).await?;
    anyhow::ensure!(answer.is_success(), "setting the limit: {}", answer.describe());
    Ok(())
}

async fn insert(options: &LimitOptions, target: &Target, queue: String) -> anyhow::Result<Arc<RunJob>> {
    let start_ms = now_ms();
    let batch = options.common.batch.unwrap_or(1_000);
    let load = LoadShape::Burst { tasks: options.tasks };
    let plan = Plan::new(load, Frame { start_ms, ahead_ms: AHEAD_MS, batch, seed: fastrand::u64(..) });
    let job = RunJob::new(target.clone(), shape(&options.common, queue, start_ms)?, plan);
    let inserted = Arc::clone(&job);
    let (_stop, stopped) = watch::channel(false);
    let mut lane = JobThread::start("insert", stopped, move || insert_all(inserted, InsertCall::Batch, 2))?;
    loop {
        if let Some(result) = lane.poll() {
            result?;
            return Ok(job);
        }
        tokio::time::sleep(TICK).await;
    }
}

/// The server's numbers of the queue.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct LimitSamples {
    tasks: BTreeMap<String, i64>,
    slots: Option<SlotSamples>,
}

#[derive(Debug, Default, serde::Deserialize)]
struct SlotSamples {
    held: u64,
}

/// The executors.
struct Crew {
    program: PathBuf,
    words: Vec<String>,
    log: PathBuf,
    path: String,
    members: Vec<Child>,
    killed_us: HashMap<u32, i64>,
    kills: usize,
}

impl Crew {
    fn new(options: &LimitOptions, target: &Target, queue: &str, log: PathBuf) -> Self {
        let words = [
            ("--url", target.urls()),
            ("--queue", queue.to_owned()),
            ("--log", log.display().to_string()),
            ("--work", format!("{}ms", options.work)),
            ("--lease", format!("{}ms", options.lease)),
            ("--hands", options.hands.to_string()),
        ];
        Self {
            program: std::env::current_exe().unwrap_or_else(|_| "loadtest".into()),
            words: words.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect(),
            log,
            path: format!("/v1/queues/{queue}"),
            members: Vec::new(),
            killed_us: HashMap::new(),
            kills: 0,
        }
    }

    fn hire(&mut self) -> anyhow::Result<()> {
        let mut command = Command::new(&self.program);
        command
            .arg("executor")
            .args(&self.words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true);
        self.members.push(command.spawn().context("starting an executor")?);
        Ok(())
    }

    /// It is gone when this returns: whatever it was doing has ended by then.
    async fn kill_one(&mut self) -> anyhow::Result<()> {
        if self.members.is_empty() {
            return Ok(());
        }
        let mut one = self.members.swap_remove(fastrand::usize(..self.members.len()));
        let pid = one.id().context("an executor has ended by itself")?;
        one.kill().await.context("killing an executor")?;
        self.killed_us.insert(pid, now_us());
        self.kills += 1;
        Ok(())
    }

    /// The number of succeeded tasks, when all have or the time is over.
    async fn work(
        &mut self,
        server: &mut Server,
        connection: &mut Connection,
        options: &LimitOptions,
    ) -> anyhow::Result<u64> {
        for _ in 0..options.executors {
            self.hire()?;
        }
        let (from_ms, mut kill_at_ms) = (now_ms(), now_ms() + AHEAD_MS);
        let mut progress = LoadProgress::new(options.common.progress);
        loop {
            tokio::time::sleep(TICK).await;
            server.check_alive()?;
            if options.kill_every > 0 && now_ms() >= kill_at_ms {
                self.kill_one().await?;
                self.hire()?;
                // Half to one and a half of what was asked for.
                kill_at_ms = now_ms() + options.kill_every / 2 + fastrand::i64(0..options.kill_every.max(1));
            }
            let succeeded = self.look(connection).await?.tasks.get("succeeded").copied().unwrap_or(0);
            let succeeded = u64::try_from(succeeded).unwrap_or(0);
            progress.say(&format!("{succeeded} of {} done, {} executors killed", options.tasks, self.kills));
            let is_done = usize::try_from(succeeded).is_ok_and(|succeeded| succeeded >= options.tasks);
            if is_done || now_ms() - from_ms > options.within {
                return Ok(succeeded);
            }
        }
    }

    /// Slots that are still held at the end.
    async fn until_freed(&mut self, connection: &mut Connection) -> anyhow::Result<u64> {
        let until_ms = now_ms() + FREED_LIMIT_MS;
        loop {
            let held = self.look(connection).await?.slots.unwrap_or_default().held;
            if held == 0 || now_ms() > until_ms {
                return Ok(held);
            }
            tokio::time::sleep(TICK).await;
        }
    }

    async fn look(&self, connection: &mut Connection) -> anyhow::Result<LimitSamples> {
        loop {
            match connection.get(&self.path, ANSWER_LIMIT).await {
                Ok(answer) if answer.is_success() => {
                    return serde_json::from_slice(answer.body).context("answer to a queue");
                }
                Ok(answer) if !answer.is_passing() => anyhow::bail!("queue: {}", answer.describe()),
                Ok(_) | Err(_) => note("the server did not say what stands in the queue"),
            }
            tokio::time::sleep(TICK).await;
        }
    }

    async fn end(&mut self) -> anyhow::Result<()> {
        while !self.members.is_empty() {
            self.kill_one().await?;
            self.kills -= 1;
        }
        Ok(())
    }
}

fn read(log: &Path) -> anyhow::Result<Vec<Execution>> {
    let text = std::fs::read_to_string(log).context("what the executors wrote")?;
    executions(&text)
}

/// Lines `pid task attempt B|E microseconds`.
fn executions(text: &str) -> anyhow::Result<Vec<Execution>> {
    let mut all: Vec<Execution> = Vec::new();
    let mut open: HashMap<(u32, i64, u32), usize> = HashMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [pid, task, attempt, what, at] = words.as_slice() else {
            anyhow::bail!("executors wrote {line:?}")
        };
        let (key, at_us) = ((pid.parse()?, task.parse()?, attempt.parse()?), at.parse()?);
        if *what == "B" {
            open.insert(key, all.len());
            all.push(Execution { pid: key.0, from_us: at_us, to_us: None });
        } else if let Some(execution) = open.remove(&key).and_then(|nth| all.get_mut(nth)) {
            execution.to_us = Some(at_us);
        }
    }
    Ok(all)
}

/// Counts the maximum of concurrent executions. An execution that was cut off ended with its process.
fn most_at_once(executions: &[Execution], killed_us: &HashMap<u32, i64>) -> usize {
    let mut edges: Vec<(i64, i64)> = Vec::with_capacity(executions.len() * 2);
    for execution in executions {
        let to_us = execution.to_us.or_else(|| killed_us.get(&execution.pid).copied()).unwrap_or(i64::MAX);
        edges.extend([(execution.from_us, 1), (to_us, -1)]);
    }
    // What ends in the microsecond in which another begins has ended before it.
    edges.sort_unstable();
    let (mut now, mut most) = (0_i64, 0);
    for (_, change) in edges {
        now += change;
        most = now.max(most);
    }
    usize::try_from(most).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ran_at_once_is_counted_with_what_was_cut_off() {
        let text =
            "7 1 1 B 100\n7 2 1 B 110\n8 3 1 B 115\n7 1 1 E 120\n8 3 1 E 120\n8 4 1 B 120\n9 2 2 B 300\n";
        let all = executions(text).unwrap();
        assert_eq!(all.len(), 5);
        let killed = |at| HashMap::from([(7, at), (8, 130), (9, 310)]);
        assert_eq!(most_at_once(&all, &killed(200)), 3);
        assert_eq!(most_at_once(&all, &HashMap::new()), 3, "nobody was killed: what is open goes on");
        assert_eq!(most_at_once(&executions("1 1 1 B 5\n1 2 1 B 5\n").unwrap(), &HashMap::new()), 2);
        assert!(executions("1 2 3").is_err());
    }
}
