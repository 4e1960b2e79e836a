//! `punctual work`: runs a command per task. Everything about leases, heartbeats and outcomes is the SDK's; here is
//! only what a command line adds.

mod bus;
mod capture;
mod command;
mod group;

use crate::{
    connect::ConnectArgs,
    duration, logs,
    output::{self, Form},
    signals::Signals,
    spans,
};
use anyhow::Result;
use bus::BusArgs;
use clap::Args;
use command::{Command, CommandEnd};
use punctual_protocol::Json;
use punctual_sdk::{Client, HandlerError, Task, Worker};
use std::{collections::HashSet, process::ExitCode, sync::Arc, time::Duration};
use tokio::{task::JoinSet, time::Instant};
use tokio_util::task::TaskTracker;

/// Run a command for each task of a queue
///
/// The command runs through `sh -c` with the payload on stdin and the task in the environment:
/// PUNCTUAL_TASK_ID, PUNCTUAL_TASK_VERSION, PUNCTUAL_REF, PUNCTUAL_QUEUE, PUNCTUAL_KIND,
/// PUNCTUAL_ATTEMPT, PUNCTUAL_MAX_ATTEMPTS, PUNCTUAL_EXECUTE_AT_MS and, where the task has one,
/// TRACEPARENT.
///
/// Exit code 0: succeeded; stdout is the result (as JSON if it is JSON, else as text; at most
/// 64 KiB). 75 (EX_TEMPFAIL): a temporary failure, retried after --retry-after whatever the
/// retry policy says. Any other code: failed, with the code and the end of stderr; retried as
/// the retry policy says.
///
/// When the lease is lost or the task is to stop, the command and all its children get SIGTERM,
/// and SIGKILL after --kill-after. On SIGINT or SIGTERM this program takes no new tasks, and
/// running commands may finish for --grace; the others are stopped the same way, and their tasks
/// are returned.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct WorkArgs {
    /// Queue to take tasks from; may be repeated. With =CONCURRENCY, at most that many of its tasks run here at the same time
    #[arg(long = "queue", short, value_name = "QUEUE[=CONCURRENCY]", required = true, value_parser = queue)]
    queues: Vec<(String, Option<usize>)>,
    /// Command to run
    #[arg(long, short, value_name = "COMMAND")]
    exec: String,
    /// Only tasks of this kind; may be repeated. Other tasks stay ready for other workers; with --subscribe, which receives
    /// tasks of all kinds, they are returned for a second
    #[arg(long = "kind", short)]
    kinds: Vec<String>,
    /// Concurrent commands
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    concurrency: u32,
    /// Duration of the lease: how long a task stays with this worker without a heartbeat. Heartbeats are sent three times as
    /// often
    #[arg(long, value_parser = duration::parse, allow_hyphen_values = true, default_value = "30s")]
    lease: Duration,
    /// Delay before the retry of a command that ended with exit code 75
    #[arg(long, value_parser = duration::parse, allow_hyphen_values = true, default_value = "5s")]
    retry_after: Duration,
    /// How long running commands may take to finish when this program is asked to end
    #[arg(long, value_parser = duration::parse, allow_hyphen_values = true, default_value = "30s")]
    grace: Duration,
    /// How long after SIGTERM a command gets SIGKILL
    #[arg(long, value_parser = duration::parse, allow_hyphen_values = true, default_value = "10s")]
    kill_after: Duration,
    /// Name of the executor, shown in the history of tasks
    #[arg(long, value_name = "NAME")]
    executor: Option<String>,
    /// Version of the command, major.minor.patch; without one, tasks that demand a handler version are not taken
    #[arg(long, value_name = "VERSION")]
    handler_version: Option<String>,
    #[command(flatten)]
    bus: BusArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// The time for which a task of another worker's kind is left for that worker.
const NOT_OURS: Duration = Duration::from_secs(1);

pub(crate) async fn run(args: WorkArgs) -> Result<ExitCode> {
    logs::start_for_worker();
    let signals = Signals::watch()?;
    let stopping = TaskTracker::new();
    let form = args.connect.form();
    let client = args.connect.client(TRIES)?;
    let bus = args.bus.clone();
    let worker = bus.attach(worker(args, client, &stopping)).await?;
    let (stop, asked) = (worker.shutdown(), signals.stop());
    let mut working = JoinSet::new();
    working.spawn(worker.run());
    let worked = tokio::select! {
        worked = working.join_next() => worked,
        () = asked.cancelled() => {
            stop.cancel();
            working.join_next().await
        }
    };
    stopping.close();
    stopping.wait().await;
    if let Some(worked) = worked {
        say(&worked??, form)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The worker has a patience of its own.
const TRIES: u32 = 1;

fn worker(args: WorkArgs, client: Client, stopping: &TaskTracker) -> Worker {
    let mut worker = Worker::new(client)
        .concurrency(usize::try_from(args.concurrency).unwrap_or(1))
        .lease(args.lease)
        .grace(args.grace);
    for (queue, most) in args.queues {
        worker = match most {
            Some(most) => worker.queue_up_to(queue, most),
            None => worker.queue(queue),
        };
    }
    if !args.kinds.is_empty() && !args.bus.subscribes() {
        worker = worker.only_own_kinds();
    }
    if let Some(executor) = args.executor.or_else(|| args.bus.executor()) {
        worker = worker.executor(executor);
    }
    if let Some(version) = args.handler_version {
        worker = worker.version(version);
    }
    let handler = Arc::new(Handler {
        command: Command { line: args.exec, kill_after: args.kill_after, stopping: stopping.clone() },
        kinds: args.kinds.iter().cloned().collect(),
        retry_after: args.retry_after,
        form: args.connect.form(),
    });
    let handle = move |task| {
        let handler = Arc::clone(&handler);
        async move { handler.handle(task).await }
    };
    if args.kinds.is_empty() || args.bus.subscribes() {
        return worker.handle_any(handle);
    }
    args.kinds.into_iter().fold(worker, |worker, kind| worker.handle(kind, handle.clone()))
}

/// `mail`, or `mail=4`.
fn queue(text: &str) -> Result<(String, Option<usize>), String> {
    let Some((name, most)) = text.split_once('=') else { return Ok((text.to_owned(), None)) };
    match most.parse() {
        Ok(most) if (1..=10_000).contains(&most) => Ok((name.to_owned(), Some(most))),
        _ => Err(format!("{most:?} is no number of tasks, 1 to 10000")),
    }
}

#[derive(Debug)]
struct Handler {
    command: Command,
    /// Empty: all.
    kinds: HashSet<String>,
    retry_after: Duration,
    form: Form,
}

impl Handler {
    async fn handle(&self, task: Task) -> Result<Option<Json>, HandlerError> {
        if !self.kinds.is_empty() && !self.kinds.contains(task.kind()) {
            return Err(HandlerError::snooze(NOT_OURS));
        }
        let begun = Instant::now();
        let ended = Box::pin(self.command.run(&task)).await?;
        self.print_outcome(&task, &ended, begun.elapsed());
        match ended {
            CommandEnd::Succeeded { result } => Ok(result),
            CommandEnd::TryLater { said } => Err(HandlerError::retry(self.retry_after, said)),
            CommandEnd::Failed { said } => Err(HandlerError::failed(said)),
        }
    }

    fn print_outcome(&self, task: &Task, ended: &CommandEnd, took: Duration) {
        let (word, said) = match ended {
            CommandEnd::Succeeded { .. } => ("succeeded", None),
            CommandEnd::TryLater { said } => ("try_later", Some(said)),
            CommandEnd::Failed { said } => ("failed", Some(said)),
        };
        if self.form == Form::Text {
            let said =
                said.map(|text| format!(": {}", text.lines().next().unwrap_or_default())).unwrap_or_default();
            let (reference, attempt) = (task.reference(), task.attempt());
            let took = spans::short_span(duration::ms(took));
            return output::line(&format!("{word} {reference} (attempt {attempt}, {took}){said}"));
        }
        let document = serde_json::json!({
            "ref": task.reference(), "task_id": task.task_id(), "kind": task.kind(), "attempt": task.attempt(),
            "ended": word, "said": said, "took_ms": duration::ms(took),
        });
        if let Err(error) = output::json(&document) {
            tracing::warn!(%error, "the end of a command cannot be written");
        }
    }
}

fn say(worked: &punctual_sdk::Worked, form: Form) -> Result<()> {
    let counts = [
        ("succeeded", worked.succeeded),
        ("failed", worked.failed),
        ("handed back", worked.handed_back),
        ("lost", worked.lost),
        ("stale", worked.stale),
        ("unreported", worked.unreported),
    ];
    if form == Form::Json {
        let counts: serde_json::Map<_, _> =
            counts.into_iter().map(|(word, count)| (word.replace(' ', "_"), count.into())).collect();
        return Ok(output::json(&serde_json::json!({ "summary": counts }))?);
    }
    let said = counts.iter().filter(|(word, count)| *count > 0 || *word == "succeeded");
    output::line(&said.map(|(word, count)| format!("{count} {word}")).collect::<Vec<_>>().join(", "));
    Ok(())
}
