//! The demo's additional content for the console: schedules, a workflow with compensations, limits, a paused queue,
//! failures, dead letters, and bulk operations. In queues of its own, whose names begin with `demo-`: it is not part
//! of the demo's account, and must never be. It omits what its token may not create.

use punctual_protocol::{
    BulkAction, BulkArgs, BulkFilter, CreateBulk, CreateWorkflow, InsertTask, OneOrMany, PauseRequest,
    PauseSchedule, PutSchedule, ScheduledTask, State, WorkflowNode,
};
use punctual_sdk::{Client, HandlerError, Task, Worker};
use serde_json::{Map, Value, json};
use std::{fmt::Display, time::Duration};
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

const MAIL: &str = "demo-mail";
const PAY: &str = "demo-pay";
const PACK: &str = "demo-pack";
const REPORTS: &str = "demo-reports";
const SCHEDULE: &str = "demo-digest";
const EVERY: Duration = Duration::from_secs(1);
/// Seconds between two workflows.
const WORKFLOW_EVERY: u64 = 15;
/// The second in which there are dead letters to be redriven.
const BULK_AT: u64 = 15;
/// The retention of dead tasks, so that a demo that runs for days stays small.
const KEEP_MS: i64 = 3_600_000;
const ERRORS: [&str; 3] = [
    "smtp: connection refused by mx2.example.com:25",
    "template welcome: no value for first_name",
    "550 5.1.1 mailbox of user unavailable",
];

/// Runs until `stop`.
pub(super) async fn run(client: Client, stop: CancellationToken) {
    set_up(&client).await;
    let worker = worker(client.clone());
    let work_stop = worker.shutdown();
    let mut working = JoinSet::new();
    working.spawn(worker.run());
    let mut tick = interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for second in 0_u64.. {
        tokio::select! {
            _ = tick.tick() => {}
            () = stop.cancelled() => break,
        }
        go_on(&client, second).await;
    }
    work_stop.cancel();
    while let Some(worked) = working.join_next().await {
        match worked {
            Ok(worked) => noted("its executor", worked),
            Err(died) => noted("its executor", Err::<(), _>(died)),
        }
    }
}

/// Logs an error. The following steps do not depend on the failed one.
fn noted<T, E: Display>(what: &str, done: Result<T, E>) {
    if let Err(error) = done {
        tracing::info!(%error, what, "a part of the demo is left out");
    }
}

async fn set_up(client: &Client) {
    let keep = json!({ "succeeded_ms": KEEP_MS, "dead_ms": KEEP_MS, "cancelled_ms": KEEP_MS });
    let limits = |more: Value| -> Map<String, Value> {
        let both = [json!({ "keep": keep }), more].into_iter().filter_map(|entry| entry.as_object().cloned());
        both.flatten().collect()
    };
    let rate = json!({ "limit": 5, "period_ms": 1_000, "burst": 5 });
    let queues = [
        (MAIL, limits(json!({ "concurrency": 4, "rate": rate, "lateness_budget_ms": 5_000 }))),
        (PAY, limits(json!({ "concurrency": 2, "max_attempts": 1 }))),
        (PACK, limits(json!({ "concurrency": 8 }))),
        (REPORTS, limits(json!({}))),
    ];
    for (queue, settings) in &queues {
        noted(queue, client.patch_queue(queue, settings, None).await);
    }
    let schedules = [
        (SCHEDULE, "Every morning of a working day", "0 9 * * MON-FRI", "Europe/Berlin", MAIL),
        ("demo-minute", "Something to watch", "* * * * *", "UTC", MAIL),
        ("demo-month-end", "The last day of the month, in Tokyo", "0 23 L * *", "Asia/Tokyo", REPORTS),
    ];
    for (name, description, cron, zone, queue) in schedules {
        let task = ScheduledTask { kind: Some("digest".to_owned()), ..ScheduledTask::new(queue) };
        let schedule = PutSchedule {
            description: Some(description.to_owned()),
            cron: Some(OneOrMany::One(cron.to_owned())),
            time_zone: Some(zone.to_owned()),
            ..PutSchedule::new(task)
        };
        noted(name, client.put_schedule(name, &schedule, None).await);
    }
    let reason = Some("the demo shows how a pause looks".to_owned());
    let pause = PauseSchedule { reason: reason.clone(), ..PauseSchedule::default() };
    noted("a pause", client.pause_schedule("demo-month-end", &pause).await);
    noted("a pause", client.pause(REPORTS, &PauseRequest { reason, by: Some("dev".to_owned()) }).await);
    let report = InsertTask { kind: Some("report".to_owned()), ..InsertTask::new(REPORTS) };
    noted("a report", client.insert(&report).await);
}

async fn go_on(client: &Client, second: u64) {
    let mail = |kind: &str, delay_ms: i64| InsertTask {
        kind: Some(kind.to_owned()),
        delay_ms: Some(delay_ms),
        max_attempts: Some(2),
        labels: [("team".to_owned(), if second.is_multiple_of(2) { "growth" } else { "billing" }.to_owned())]
            .into(),
        ..InsertTask::new(MAIL)
    };
    let tasks = [mail("welcome", 2_000), mail("receipt", 30_000)];
    noted("mail", client.insert_batch(&tasks).await.map_err(|error| error.source));
    if second.is_multiple_of(WORKFLOW_EVERY) {
        noted("a workflow", client.create_workflow(&order()).await);
    }
    if second == BULK_AT {
        bulk(client).await;
    }
}

/// One that is carried out, and one that waits until it is confirmed.
async fn bulk(client: &Client) {
    let of = |action, state, reason: &str| CreateBulk {
        action,
        filter: BulkFilter { queue: Some(MAIL.to_owned()), state: Some(state), ..BulkFilter::default() },
        all: false,
        args: BulkArgs::default(),
        rate: Some(50),
        reason: Some(reason.to_owned()),
    };
    match client.preview_bulk(&of(BulkAction::Redrive, State::Dead, "the mail server is back")).await {
        Ok(preview_bulk) => {
            noted("a bulk operation", client.confirm_bulk(preview_bulk.id, Some(preview_bulk.revision)).await)
        }
        Err(error) => noted("a bulk operation", Err::<(), _>(error)),
    }
    let cancel = of(BulkAction::Cancel, State::Scheduled, "these customers have left");
    noted("a bulk operation", client.preview_bulk(&cancel).await);
}

/// An order whose charge is refunded if the order fails.
fn order() -> CreateWorkflow {
    let task =
        |queue: &str, kind: &str| ScheduledTask { kind: Some(kind.to_owned()), ..ScheduledTask::new(queue) };
    let node = |queue: &str, kind: &str| WorkflowNode::task(task(queue, kind));
    CreateWorkflow::new()
        .named("demo-order")
        .node("charge", node(PAY, "charge").compensate(task(PAY, "refund")))
        .node("reserve", node(PACK, "reserve").compensate(task(PACK, "release")))
        .node("pack", node(PACK, "pack").after(["charge", "reserve"]))
        .node("label", node(PACK, "label").after(["charge"]))
        .node("send", node(PAY, "send").after(["pack", "label"]).delay_ms(3_000))
        .node("thank", node(MAIL, "thank").after(["send"]))
}

fn worker(client: Client) -> Worker {
    Worker::new(client)
        .queue(MAIL)
        .queue(PAY)
        .queue(PACK)
        .concurrency(8)
        .executor("dev-shop")
        .handle("welcome", |task: Task| std::future::ready(fails_of_ten(4, &task)))
        .handle("send", |task: Task| std::future::ready(fails_of_ten(3, &task)))
        .handle_any(|task: Task| std::future::ready(fails_of_ten(0, &task)))
}

/// Fails this many of ten attempts, so that the console has failures to show.
fn fails_of_ten(bad: u32, task: &Task) -> Result<Value, HandlerError> {
    if fastrand::u32(..10) >= bad {
        return Ok(json!({ "done": task.kind() }));
    }
    let error = ERRORS.get(fastrand::usize(..ERRORS.len())).copied().unwrap_or_default();
    Err(HandlerError::failed(error))
}
