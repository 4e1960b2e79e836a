//! `punctual task import`, and `insert --file`: the source of the lines, the file of refused ones, and the final
//! report.

use super::{
    lines::{LINE_BYTES_MAX, Lines},
    load::{self, LoadPlan, LoadReport, Loader},
    progress::ProgressDisplay,
};
use crate::{
    connect::ConnectArgs,
    output::{self, Form},
    say,
    signals::Signals,
};
use anyhow::{Context, Result};
use clap::Args;
use std::{
    os::fd::AsFd,
    path::{Path, PathBuf},
    process::ExitCode,
};
use tokio::{
    fs::File,
    io::{AsyncBufRead, BufReader},
    time::Instant,
};

#[derive(Args, Debug)]
#[command(next_help_heading = "A file of tasks")]
pub(super) struct FileArgs {
    /// File with one task per line (NDJSON); - reads stdin
    #[arg(long, short, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    load: LoadArgs,
}

/// Insert a file of tasks of any size
///
/// Examples:
///   punctual task import tasks.ndjson --dry-run
///   punctual task import tasks.ndjson --rejects rejected.ndjson --state-file import.state
///
/// A file has one task per line, in the format of POST /v1/tasks. Rejected lines are reported by
/// number and do not stop the others. With --state-file an interrupted import continues where it
/// stopped; the lines of the last batches may be sent again, and those with a `task_id` are not
/// inserted twice.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct ImportArgs {
    /// File with one task per line (NDJSON); - reads stdin
    file: PathBuf,
    #[command(flatten)]
    load: LoadArgs,
    /// W3C trace context of those tasks that have none
    #[arg(long, value_name = "CONTEXT", env = "TRACEPARENT", hide_env_values = true)]
    traceparent: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "A file of tasks")]
struct LoadArgs {
    /// Insert nothing; only report which lines are invalid
    #[arg(long, requires = "file")]
    dry_run: bool,
    /// Record in this file up to which line all were answered. If the file exists, continue from there
    #[arg(long, value_name = "FILE", requires = "file", conflicts_with = "skip")]
    state_file: Option<PathBuf>,
    /// Write the rejected lines to this file
    #[arg(long, value_name = "FILE", requires = "file")]
    rejects: Option<PathBuf>,
    /// Skip this many lines at the start, to continue a load that stopped
    #[arg(long, value_name = "LINES", default_value_t = 0, requires = "file")]
    skip: u64,
    /// Tasks per request
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch: u32,
    /// Concurrent requests
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    in_flight: u32,
}

/// A load outlasts a server that is restarted: about a quarter of a minute.
const TRIES: u32 = 12;

impl FileArgs {
    pub(super) const fn is_given(&self) -> bool {
        self.file.is_some()
    }
}

impl LoadArgs {
    fn plan(&self, traceparent: Option<String>) -> Result<LoadPlan> {
        let skip = match &self.state_file {
            Some(path) => begun(path)?,
            None => self.skip,
        };
        Ok(LoadPlan {
            skip,
            batch_tasks: usize::try_from(self.batch).unwrap_or(1),
            in_flight: usize::try_from(self.in_flight).unwrap_or(1),
            traceparent,
        })
    }
}

/// The lines that have their answers from before.
fn begun(path: &Path) -> Result<u64> {
    match std::fs::read_to_string(path) {
        Ok(text) => text.trim().parse().with_context(|| format!("{} is not of an import", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
    }
}

pub(super) async fn run(
    args: FileArgs,
    traceparent: Option<String>,
    connect: &ConnectArgs,
) -> Result<ExitCode> {
    load(args.file.unwrap_or_default(), args.load, traceparent, connect).await
}

pub(crate) async fn import(args: ImportArgs) -> Result<ExitCode> {
    load(args.file, args.load, args.traceparent, &args.connect).await
}

async fn load(
    path: PathBuf,
    args: LoadArgs,
    traceparent: Option<String>,
    connect: &ConnectArgs,
) -> Result<ExitCode> {
    let (input, bytes) = open(&path).await?;
    if args.dry_run {
        return check(input, bytes, connect.form()).await;
    }
    let rejects = match &args.rejects {
        Some(path) => Some(create(path).await?),
        None => None,
    };
    let signals = Signals::watch()?;
    let progress = ProgressDisplay::new(bytes, connect.form());
    let lines = Lines::new(input, LINE_BYTES_MAX);
    let begun = Instant::now();
    let client = connect.client(TRIES)?;
    let mut loader =
        Loader::new(lines, client, args.plan(traceparent)?, progress, (rejects, args.state_file));
    let report = Box::pin(loader.run(signals.stop())).await?;
    summary(&report, begun.elapsed().as_secs_f64(), connect.form())?;
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Every line, as far as it can be judged without a server.
async fn check(input: Input, bytes: Option<u64>, form: Form) -> Result<ExitCode> {
    let (mut lines, progress) = (Lines::new(input, LINE_BYTES_MAX), ProgressDisplay::new(bytes, form));
    let (mut valid, mut refused) = (0_u64, 0_u64);
    while let Some(line) = lines.next().await.context("the file cannot be read on")? {
        match load::checked(&line) {
            None => {}
            Some(Ok(_)) => valid += 1,
            Some(Err(invalid)) => {
                refused += 1;
                let problem = invalid.into();
                progress.refused(line.number, &problem, &say::reason(&problem))?;
            }
        }
        progress.done(line.bytes, valid + refused);
    }
    progress.finish();
    if form == Form::Json {
        output::json(&serde_json::json!({ "summary": { "valid": valid, "refused": refused } }))?;
    } else {
        let count = output::count;
        output::line(&format!(
            "{} lines are valid, {} are not; nothing was inserted",
            count(valid),
            count(refused)
        ));
    }
    Ok(if refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

type Input = Box<dyn AsyncBufRead + Unpin + Send>;

/// The lines, and how many bytes they are if that is known.
async fn open(path: &Path) -> Result<(Input, Option<u64>)> {
    if path == Path::new("-") {
        let stdin = std::io::stdin().as_fd().try_clone_to_owned().context("stdin cannot be read")?;
        return Ok((Box::new(BufReader::new(File::from_std(stdin.into()))), None));
    }
    let cannot = || format!("{} cannot be read", path.display());
    let file = File::open(path).await.with_context(cannot)?;
    let about = file.metadata().await.with_context(cannot)?;
    anyhow::ensure!(!about.is_dir(), "{} is a directory", path.display());
    let bytes = about.is_file().then_some(about.len());
    Ok((Box::new(BufReader::with_capacity(256 << 10, file)), bytes))
}

async fn create(path: &Path) -> Result<File> {
    File::create(path).await.with_context(|| format!("{} cannot be written", path.display()))
}

fn summary(report: &LoadReport, took_s: f64, form: Form) -> Result<()> {
    if form == Form::Json {
        output::json(&serde_json::json!({ "summary": report, "took_s": took_s }))?;
    } else {
        output::line(&report.sentence(took_s));
    }
    if let Some(stopped) = &report.stopped {
        say::failed(&anyhow::anyhow!("stopped: {}", stopped.reason));
        output::error_line(&format!(
            "  every line up to {0} has its answer; go on with --skip {0} (lines with a task_id are never inserted twice)",
            stopped.answered_lines
        ));
    }
    Ok(())
}
