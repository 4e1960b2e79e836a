//! A schedule on the wire and in the domain. What it means is the domain's.

use crate::{answer, ask, refusal::Refusal};
use punctual_contract::schedules::{Run, ScheduleKey, StoredSchedule};
use punctual_domain::{
    schedule::{
        self as domain, EVERY_MIN_MS, MISSED_WINDOW_DEFAULT_MS, Outcome, Payload, Schedule, TaskTemplate,
    },
    task::Demands,
    time::Millis,
};
use punctual_protocol::{
    self as wire, At, Base64, FieldError, Json, PutSchedule, ScheduleRun, ScheduledTask, UpcomingRun,
    limits::DEFAULT_KIND,
};
use punctual_schedules::Upcoming;

const _: () = assert!(EVERY_MIN_MS == 100, "the document says 100");

pub(super) fn domain(asked: PutSchedule) -> Result<Schedule, Refusal> {
    let instant =
        |text: Option<&wire::Instant>, ms: Option<i64>| text.and_then(wire::Instant::ms).or(ms).map(Millis);
    let start_at = instant(asked.start_at.as_ref(), asked.start_at_ms);
    let end_at = instant(asked.end_at.as_ref(), asked.end_at_ms);
    let at = asked.at.unwrap_or_default();
    Ok(Schedule {
        description: asked.description,
        owner: asked.owner,
        enabled: asked.enabled.unwrap_or(true),
        cron: asked.cron.map(wire::OneOrMany::into_vec).unwrap_or_default(),
        every_ms: asked.every_ms,
        phase_ms: asked.phase_ms,
        at: at.iter().filter_map(|instant| instant.ms().map(Millis)).collect(),
        time_zone: asked.time_zone.unwrap_or_else(|| "UTC".to_owned()),
        start_at,
        end_at,
        max_runs: asked.max_runs,
        jitter_ms: asked.jitter_ms.unwrap_or(0),
        exclude: asked.exclude.unwrap_or_default().into_iter().map(wire::Exclude::into_text).collect(),
        overlap: overlap(asked.overlap.unwrap_or_default()),
        missed: missed(asked.missed.unwrap_or_default()),
        missed_window_ms: asked.missed_window_ms.unwrap_or(MISSED_WINDOW_DEFAULT_MS),
        pause: None,
        task: template(asked.task, "/task")?,
    })
}

/// `path`: where it is in the document.
pub(crate) fn template(task: ScheduledTask, path: &str) -> Result<TaskTemplate, Refusal> {
    let json = task.payload.map(|payload| Payload::Json(payload.into_text()));
    let retry = task.retry.map(ask::retry).transpose().map_err(|invalid| invalid.under(path))?;
    let under = |error: FieldError| FieldError::new(format!("{path}{}", error.pointer), error.detail);
    let priority = ask::priority(task.priority).map_err(under)?;
    Ok(TaskTemplate {
        queue: ask::name(&format!("{path}/queue"), &task.queue)?,
        kind: ask::name(&format!("{path}/kind"), task.kind.as_deref().unwrap_or(DEFAULT_KIND))?,
        priority: priority.unwrap_or_default(),
        payload: json.or_else(|| task.payload_base64.map(|payload_base64| Payload::Bytes(payload_base64.0))),
        max_attempts: task.max_attempts,
        retry,
        timeout_ms: task.timeout_ms,
        deadline_ms: task.deadline_ms,
        labels: task.labels,
        demands: Demands { concurrency_key: task.concurrency_key, handler_versions: task.handler_versions },
    })
}

/// The displayed schedule, without the planner's own data.
pub(super) fn shown(stored: &StoredSchedule, now: Millis, next: Option<Millis>) -> wire::Schedule {
    let (schedule, progress) = (&stored.schedule, &stored.progress);
    let pause = schedule.pause.as_ref().filter(|_| schedule.is_paused(now));
    let ScheduleKey { namespace, name } = &stored.key;
    let last = progress.last_run(now);
    wire::Schedule {
        name: name.as_str().to_owned(),
        namespace: namespace.as_str().to_owned(),
        description: schedule.description.clone(),
        owner: schedule.owner.clone(),
        enabled: schedule.enabled,
        cron: schedule.cron.clone(),
        every_ms: schedule.every_ms,
        phase_ms: schedule.phase_ms,
        at: schedule.at.iter().map(|at| At::from_ms(at.0)).collect(),
        time_zone: schedule.time_zone.clone(),
        start_at: schedule.start_at.map(instant),
        end_at: schedule.end_at.map(instant),
        max_runs: schedule.max_runs,
        jitter_ms: schedule.jitter_ms,
        exclude: schedule.exclude.clone(),
        overlap: shown_overlap(schedule.overlap),
        missed: shown_missed(schedule.missed),
        missed_window_ms: schedule.missed_window_ms,
        task: shown_task(&schedule.task),
        pause: pause.map(|pause| wire::SchedulePause {
            at: instant(pause.at),
            at_ms: pause.at.0,
            by: pause.by.clone(),
            reason: pause.reason.clone(),
            until: pause.until.map(instant),
            until_ms: pause.until.map(|at| at.0),
        }),
        set_aside: None,
        revision: stored.revision,
        next_run_at: next.map(instant),
        next_run_at_ms: next.map(|at| at.0),
        last_run_at: last.map(instant),
        last_run_at_ms: last.map(|at| at.0),
        runs: progress.runs,
        buffered: u64::try_from(progress.buffered.len()).unwrap_or(u64::MAX),
        created_at: instant(stored.created_at),
        created_at_ms: stored.created_at.0,
        updated_at: instant(stored.updated_at),
        updated_at_ms: stored.updated_at.0,
        updated_by: stored.updated_by.clone(),
        taken_back: None,
    }
}

fn instant(at: Millis) -> At {
    At::from_ms(at.0)
}

fn shown_task(task: &TaskTemplate) -> ScheduledTask {
    let (payload, payload_base64) = match task.payload.clone() {
        None => (None, None),
        Some(Payload::Json(text)) => (Json::from_text(text).ok(), None),
        Some(Payload::Bytes(bytes)) => (None, Some(Base64(bytes))),
    };
    ScheduledTask {
        queue: task.queue.as_str().to_owned(),
        kind: Some(task.kind.as_str().to_owned()),
        priority: Some(task.priority.level()),
        payload,
        payload_base64,
        max_attempts: task.max_attempts,
        retry: task.retry.clone().map(answer::retry),
        timeout_ms: task.timeout_ms,
        deadline_ms: task.deadline_ms,
        labels: task.labels.clone(),
        concurrency_key: task.demands.concurrency_key.clone(),
        handler_versions: task.demands.handler_versions.clone(),
    }
}

const fn overlap(overlap: wire::Overlap) -> domain::Overlap {
    match overlap {
        wire::Overlap::Skip => domain::Overlap::Skip,
        wire::Overlap::BufferOne => domain::Overlap::BufferOne,
        wire::Overlap::BufferAll => domain::Overlap::BufferAll,
        wire::Overlap::Allow => domain::Overlap::Allow,
        wire::Overlap::CancelOther => domain::Overlap::CancelOther,
    }
}

const fn shown_overlap(overlap: domain::Overlap) -> wire::Overlap {
    match overlap {
        domain::Overlap::Skip => wire::Overlap::Skip,
        domain::Overlap::BufferOne => wire::Overlap::BufferOne,
        domain::Overlap::BufferAll => wire::Overlap::BufferAll,
        domain::Overlap::Allow => wire::Overlap::Allow,
        domain::Overlap::CancelOther => wire::Overlap::CancelOther,
    }
}

const fn missed(missed: wire::Missed) -> domain::Missed {
    match missed {
        wire::Missed::Skip => domain::Missed::Skip,
        wire::Missed::Latest => domain::Missed::Latest,
        wire::Missed::All => domain::Missed::All,
    }
}

const fn shown_missed(missed: domain::Missed) -> wire::Missed {
    match missed {
        domain::Missed::Skip => wire::Missed::Skip,
        domain::Missed::Latest => wire::Missed::Latest,
        domain::Missed::All => wire::Missed::All,
    }
}

pub(super) fn upcoming(upcoming: Upcoming) -> UpcomingRun {
    UpcomingRun {
        at: instant(upcoming.at),
        at_ms: upcoming.at.0,
        scheduled_at: instant(upcoming.scheduled_at),
        scheduled_at_ms: upcoming.scheduled_at.0,
    }
}

pub(super) fn run(run: Run) -> ScheduleRun {
    ScheduleRun {
        at: instant(run.key.at),
        at_ms: run.key.at.0,
        kind: match run.key.kind {
            domain::RunKind::Planned => wire::RunKind::Planned,
            domain::RunKind::Manual => wire::RunKind::Manual,
            domain::RunKind::Backfill => wire::RunKind::Backfill,
        },
        outcome: match run.outcome {
            Outcome::Created => wire::RunOutcome::Created,
            Outcome::Skipped => wire::RunOutcome::Skipped,
            Outcome::Buffered => wire::RunOutcome::Buffered,
            Outcome::Missed => wire::RunOutcome::Missed,
            Outcome::Cancelled => wire::RunOutcome::Cancelled,
        },
        reason: run.reason,
        task_ref: run.task_ref,
        execute_at: instant(run.execute_at),
        execute_at_ms: run.execute_at.0,
        run: run.number,
        created_at: instant(run.created_at),
        created_at_ms: run.created_at.0,
    }
}
