//! `punctual task insert --file`: where the lines come from, where the refused ones go, and what is said at the end.

use super::{
    lines::{LINE_BYTES_MAX, Lines},
    load::{Loader, Plan, Report},
    progress::Progress,
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
    /// One task a line (NDJSON); - reads stdin
    #[arg(long, short, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Write the refused lines to this file
    #[arg(long, value_name = "FILE", requires = "file")]
    rejects: Option<PathBuf>,
    /// Pass over the first lines, to go on where a load stopped
    #[arg(long, value_name = "LINES", default_value_t = 0, requires = "file")]
    skip: u64,
    /// Tasks of one request
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch: u32,
    /// Requests at the same time
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    in_flight: u32,
}

/// A load outlasts a server that is restarted: about a quarter of a minute.
const TRIES: u32 = 12;

impl FileArgs {
    pub(super) const fn is_given(&self) -> bool {
        self.file.is_some()
    }

    fn plan(&self) -> Plan {
        Plan {
            skip: self.skip,
            batch_tasks: usize::try_from(self.batch).unwrap_or(1),
            in_flight: usize::try_from(self.in_flight).unwrap_or(1),
        }
    }
}

pub(super) async fn run(args: FileArgs, connect: &ConnectArgs) -> Result<ExitCode> {
    let path = args.file.clone().unwrap_or_default();
    let (input, bytes) = open(&path).await?;
    let rejects = match &args.rejects {
        Some(path) => Some(create(path).await?),
        None => None,
    };
    let signals = Signals::watch()?;
    let progress = Progress::new(bytes, connect.form());
    let lines = Lines::new(input, LINE_BYTES_MAX);
    let begun = Instant::now();
    let mut loader = Loader::new(lines, connect.client(TRIES)?, args.plan(), progress, rejects);
    let report = Box::pin(loader.run(signals.stop())).await?;
    summary(&report, begun.elapsed().as_secs_f64(), connect.form())?;
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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

fn summary(report: &Report, took_s: f64, form: Form) -> Result<()> {
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
