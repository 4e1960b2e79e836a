//! `punctual shard archive`: the housekeeping of old buckets, once and now, as engines do it every minute; and what it
//! would do. Safe beside running engines: it works under the same lock, in the same steps.

use super::store_args::StoreArgs;
use crate::{
    archive::{bucket_options, of_mysql},
    audited::{Audited, audited},
    clock::SystemClock,
    config::Archive,
    logs,
    output::{self, Form, count},
};
use anyhow::{Result, bail};
use clap::Args;
use indicatif::ProgressBar;
use punctual_contract::Clock as _;
use punctual_store::{BucketOptions, BucketReport, BucketSurvey, Buckets};
use serde::Serialize;
use std::{io::IsTerminal as _, process::ExitCode, time::Duration};

#[derive(Args, Debug)]
pub(crate) struct ArchiveArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// URL of the archives, the same as that of the engines (file:///directory, s3://bucket/prefix)
    #[arg(long, value_name = "URL", env = "PUNCTUAL_ARCHIVE_URL")]
    archive_url: Option<String>,
    /// Minimum age of a bucket, in days
    #[arg(
        long,
        value_name = "DAYS",
        env = "PUNCTUAL_ARCHIVE_AFTER_DAYS",
        default_value_t = 7,
        value_parser = clap::value_parser!(u32).range(1..=3_650)
    )]
    after_days: u32,
    /// Maximum number of tasks to copy when a bucket is cut. Writes wait meanwhile: use more than 10,000 only at a quiet hour
    #[arg(long, value_name = "ROWS", default_value_t = 10_000)]
    cut_rows: u32,
    /// Only report what would be done, and why
    #[arg(long)]
    dry_run: bool,
}

#[derive(Serialize)]
struct Bucket {
    shard: u16,
    bucket: String,
    ends_at: i64,
    rows: u64,
    unfinished: u64,
    retained: u64,
    stopping: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    kept_because: Option<&'static str>,
}

/// All runs together.
#[derive(Default, Serialize)]
struct Done {
    made: usize,
    dropped: usize,
    carried: u64,
    archived: u64,
    archived_bytes: u64,
    forgotten: u64,
}

pub(super) async fn run(args: &ArchiveArgs) -> Result<ExitCode> {
    logs::start_for_client();
    let archive = Archive {
        url: args.archive_url.clone().filter(|archive_url| !archive_url.is_empty()),
        after_days: args.after_days,
        ..Archive::default()
    };
    let store = of_mysql(args.store.open().await?, &archive).await?;
    let options = BucketOptions { cut_rows: args.cut_rows, ..bucket_options(&archive) };
    let buckets = store.buckets(options);
    let form = Form::json_if(args.store.json);
    let ran = if args.dry_run {
        dry(&buckets, form).await
    } else {
        let work = once(&buckets, form);
        audited(&store, "shard_archive", "shard archive", work).await
    };
    store.close().await;
    ran
}

async fn dry(buckets: &Buckets, form: Form) -> Result<ExitCode> {
    let found = surveyed(buckets).await?;
    match form {
        Form::Json => output::json(&serde_json::json!({ "dry_run": true, "buckets": found }))?,
        Form::Text if found.is_empty() => output::line("No bucket is old enough."),
        Form::Text => print(&found),
    }
    Ok(ExitCode::SUCCESS)
}

async fn once(buckets: &Buckets, form: Form) -> Result<Audited<ExitCode>> {
    let before = surveyed(buckets).await?;
    let done = to_the_end(buckets).await?;
    let kept = surveyed(buckets).await?;
    let names = |found: &[Bucket]| {
        found.iter().map(|bucket| format!("{}/{}", bucket.shard, bucket.bucket)).collect::<Vec<_>>()
    };
    let stood = serde_json::json!({ "buckets": names(&before) });
    let current = serde_json::json!({ "done": done, "kept": names(&kept) });
    match form {
        Form::Json => {
            let looked = before.len();
            output::json(&serde_json::json!({ "looked": looked, "done": done, "kept": kept }))?;
        }
        Form::Text => {
            output::facts(&[
                ("Buckets looked at", before.len().to_string()),
                ("Dropped", done.dropped.to_string()),
                (
                    "Tasks archived",
                    format!("{} in {} bytes", count(done.archived), count(done.archived_bytes)),
                ),
                ("Tasks forgotten", count(done.forgotten)),
                ("Tasks carried over", count(done.carried)),
                ("Kept", kept.len().to_string()),
            ]);
            if !kept.is_empty() {
                print(&kept);
            }
        }
    }
    Ok(Audited {
        value: ExitCode::SUCCESS,
        before: Some(stood.to_string()),
        after: Some(current.to_string()),
    })
}

/// Each run is bounded, and continues where the preceding one stopped.
async fn to_the_end(buckets: &Buckets) -> Result<Done> {
    let bar =
        if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    bar.enable_steady_tick(Duration::from_millis(200));
    let mut done = Done::default();
    loop {
        let report = buckets.run_once(SystemClock.now()).await?;
        done.add(&report);
        bar.set_message(format!(
            "{} archived, {} carried over, {} buckets dropped",
            count(done.archived),
            count(done.carried),
            done.dropped
        ));
        if report.busy > 0 {
            bail!(
                "{} database(s) are being worked on by another, which does the same; see its log, or ask again",
                report.busy
            );
        }
        if report.not_archived > 0 {
            bail!(
                "{} database(s) could not be archived, and nothing of them is lost; the log says why",
                report.not_archived
            );
        }
        if !report.is_unfinished {
            bar.finish_and_clear();
            return Ok(done);
        }
    }
}

impl Done {
    fn add(&mut self, report: &BucketReport) {
        self.made += report.made;
        self.dropped += report.dropped;
        self.carried += report.carried;
        self.archived += report.archived;
        self.archived_bytes += report.archived_bytes;
        self.forgotten += report.forgotten;
    }
}

async fn surveyed(buckets: &Buckets) -> Result<Vec<Bucket>> {
    Ok(buckets.survey(SystemClock.now()).await?.into_iter().map(Bucket::from).collect())
}

impl From<BucketSurvey> for Bucket {
    fn from(survey: BucketSurvey) -> Self {
        Self {
            shard: survey.shard,
            bucket: survey.name,
            ends_at: survey.ends_at.0,
            rows: survey.rows,
            unfinished: survey.unfinished,
            retained: survey.retained,
            stopping: survey.stopping,
            kept_because: survey.kept_because,
        }
    }
}

fn print(buckets: &[Bucket]) {
    let rows = buckets.iter().map(|bucket| {
        let carried = bucket.unfinished + bucket.retained;
        let fate = match (bucket.kept_because, bucket.rows, carried) {
            (Some(why), ..) => format!("stays: {why}"),
            (None, 0, _) => "empty: dropped".to_owned(),
            (None, _, 0) => "all over: dropped".to_owned(),
            (None, _, carried) => format!("dropped, {} tasks carried over", count(carried)),
        };
        [
            bucket.shard.to_string(),
            bucket.bucket.clone(),
            count(bucket.rows),
            count(bucket.unfinished),
            count(bucket.retained),
            fate,
        ]
    });
    output::table(["SHARD", "BUCKET", "TASKS", "UNFINISHED", "KEPT BY RETENTION", "ACTION"], rows);
}
