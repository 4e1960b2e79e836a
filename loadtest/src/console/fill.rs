//! The data for the console's measurement: tasks in every state over very many queues, most of them due in days, some
//! within the hour so that the hot set has them, some that wait for an executor, run, are finished, dead or
//! cancelled; schedules, workflows, executors.

use super::{options::ConsoleOptions, page::ANSWER_LIMIT};
use crate::{
    clock::now_ms,
    fill::fill_from,
    http::{Connection, Target},
    progress::note,
    wire::{self, LeaseAnswer},
};
use anyhow::Context as _;
use serde_json::Value;
use std::fmt::Write as _;

const DAY_MS: i64 = 86_400_000;
/// Most of them.
const FAR: (i64, i64) = (2 * DAY_MS, 30 * DAY_MS);
/// In the hot set, and not due while it is measured: from so long on, over so long.
const NEAR: (i64, i64) = (25 * 60_000, 30 * 60_000);
/// Tasks that are due at once: they wait for executors, and some have one.
const NOW_MAX: usize = 20_000;
/// Queues that executors ask, and what they take of each.
const ASKED_QUEUES: usize = 200;
const TAKEN: usize = 6;
const EXECUTORS: usize = 50;
const CHANGED_BY_HAND: usize = 100;
const SCHEDULES: usize = 50;
const WORKFLOWS: usize = 20;
/// One task in so many is of the kind that is searched for.
const RARE: usize = 997;

/// The subjects of pages.
pub(super) struct Filled {
    pub(super) task: String,
    pub(super) dead: String,
    pub(super) workflow: String,
    pub(super) states: Vec<(String, i64)>,
}

pub(super) fn queue(nth: usize) -> String {
    format!("console-{nth:05}")
}

pub(super) async fn fill(options: &ConsoleOptions, target: &Target, base: i64) -> anyhow::Result<Filled> {
    let (tasks, queues) = (options.tasks.max(queues_of(options)), queues_of(options));
    let near = options.near.unwrap_or(tasks / 10).min(tasks / 2);
    let now = (tasks / 50).min(NOW_MAX);
    let far = tasks - near - now;
    let writer = |(from_ms, spread_ms): (i64, i64)| {
        move |body: &mut String, nth: usize| {
            let due_ms = from_ms + i64::try_from(nth).unwrap_or(0) * 7_919 % spread_ms.max(1);
            write_task(body, nth, (queues, base, due_ms));
        }
    };
    let connections = options.connections;
    note(&format!("filling in {far} tasks that are due in days"));
    fill_from(target, (0, far, connections), writer((now_ms() + FAR.0, FAR.1))).await?;
    let mut connection = Connection::new(target.clone());
    let dead = by_hand(&mut connection, base, far).await?;
    let workflow = planned(&mut connection).await?;
    note(&format!("filling in {near} tasks that are due within the hour, and {now} that are due now"));
    fill_from(target, (far, far + near, connections), writer((now_ms() + NEAR.0, NEAR.1))).await?;
    fill_from(target, (far + near, tasks, connections), writer((now_ms(), 1))).await?;
    let mut connection = Connection::new(target.clone());
    run_some(&mut connection, (far + near, tasks, queues)).await?;
    until_known(&mut connection).await?;
    let task = reference(&mut connection, base).await?;
    let stats = get(&mut connection, "/v1/stats").await?;
    let states = stats.pointer("/backlog/states").and_then(Value::as_object).context("no account")?;
    let states = states.iter().map(|one| (one.0.clone(), one.1.as_i64().unwrap_or(0))).collect();
    Ok(Filled { task, dead, workflow, states })
}

fn queues_of(options: &ConsoleOptions) -> usize {
    options.queues.max(1)
}

fn write_task(body: &mut String, nth: usize, (queues, base, due_ms): (usize, i64, i64)) {
    let kind = if nth.is_multiple_of(RARE) { "rare" } else { "usual" };
    let (queue, id) = (queue(nth % queues), base + i64::try_from(nth).unwrap_or(i64::MAX));
    let _ = write!(
        body,
        r#"{{"queue":"{queue}","kind":"{kind}","task_id":{id},"execute_at_ms":{due_ms},"payload":{{"n":{nth}}}}}"#
    );
}

/// Some that are cancelled, and some that are buried, with two reasons. A dead one.
async fn by_hand(connection: &mut Connection, base: i64, far: usize) -> anyhow::Result<String> {
    let (count, mut dead) = (CHANGED_BY_HAND.min(far / 4), None);
    for nth in 0..count * 2 {
        let number = i64::try_from(1 + nth * (far / (count * 2 + 1)))?;
        let place = reference(connection, base + number).await?;
        if nth < count {
            post(connection, &format!("/v1/tasks/{place}/cancel"), "").await?;
            continue;
        }
        let reason = if nth % 3 == 0 { "mailbox full" } else { "card declined" };
        post(connection, &format!("/v1/tasks/{place}/bury"), &format!(r#"{{"reason":"{reason}"}}"#)).await?;
        dead = Some(place);
    }
    dead.context("no task was buried")
}

/// Schedules, and workflows of which one is answered.
async fn planned(connection: &mut Connection) -> anyhow::Result<String> {
    for nth in 0..SCHEDULES {
        let minute = nth % 60;
        let body = format!(
            r#"{{"cron":["{minute} 3 * * *"],"time_zone":"Europe/Berlin","task":{{"queue":"{}","kind":"usual"}}}}"#,
            queue(nth)
        );
        let path = format!("/v1/schedules/console-{nth}");
        let answer = connection.put(&path, body.as_bytes(), ANSWER_LIMIT).await?;
        anyhow::ensure!(answer.is_success(), "{path}: {}", answer.describe());
    }
    let mut workflow = None;
    for _ in 0..WORKFLOWS {
        let task = r#"{"task":{"queue":"console-workflows","kind":"usual"}"#;
        let body = format!(
            r#"{{"name":"console","nodes":{{"first":{task}}},"second":{task},"after":["first"]}},"third":{task},"after":["first"]}}}}}}"#
        );
        let made = post(connection, "/v1/workflows", &body).await?;
        workflow = made.get("ref").and_then(Value::as_str).map(str::to_owned);
    }
    workflow.context("a workflow has a ref")
}

/// Runs some of the due tasks: some run, some succeed, some are dead; the rest waits.
async fn run_some(
    connection: &mut Connection,
    (first, end, queues): (usize, usize, usize),
) -> anyhow::Result<()> {
    note("executors take some");
    let asked = ASKED_QUEUES.min(end - first).min(queues);
    for nth in 0..asked {
        let path = format!("/v1/queues/{}/lease", queue((first + nth) % queues));
        let executor = format!("console-{}", nth % EXECUTORS);
        let body = wire::lease_request(TAKEN, 5_000, 3_600_000, &executor);
        let answer = connection.post(&path, &body, ANSWER_LIMIT).await?;
        anyhow::ensure!(answer.is_success(), "{path}: {}", answer.describe());
        let leased: LeaseAnswer<'_> = serde_json::from_slice(answer.body)?;
        let mut outcomes = Vec::new();
        for (place, one) in leased.tasks.iter().enumerate() {
            let succeeded = one.succeeded();
            match (nth + place) % 3 {
                0 => {}
                1 => outcomes.push(succeeded),
                _ => outcomes.push(succeeded.replace(
                    r#""outcome":"succeeded""#,
                    r#""outcome":"reject","status_msg":"no such customer""#,
                )),
            }
        }
        if !outcomes.is_empty() {
            let mut body = Vec::new();
            wire::write_outcomes(outcomes.iter().map(String::as_str), &mut body);
            let answer = connection.post("/v1/outcomes", &body, ANSWER_LIMIT).await?;
            anyhow::ensure!(answer.is_success(), "outcomes: {}", answer.describe());
        }
    }
    Ok(())
}

/// Executors are written down within a second or two of their first lease.
async fn until_known(connection: &mut Connection) -> anyhow::Result<()> {
    for _ in 0..200 {
        if connection.get("/v1/executors/console-1", ANSWER_LIMIT).await?.is_success() {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    anyhow::bail!("the executor console-1 is not known")
}

pub(super) async fn get(connection: &mut Connection, path: &str) -> anyhow::Result<Value> {
    let answer = connection.get(path, ANSWER_LIMIT).await?;
    anyhow::ensure!(answer.is_success(), "{path}: {}", answer.describe());
    Ok(serde_json::from_slice(answer.body)?)
}

pub(super) async fn post(connection: &mut Connection, path: &str, body: &str) -> anyhow::Result<Value> {
    let answer = connection.post(path, body.as_bytes(), ANSWER_LIMIT).await?;
    anyhow::ensure!(answer.is_success(), "{path}: {}", answer.describe());
    Ok(serde_json::from_slice(answer.body)?)
}

async fn reference(connection: &mut Connection, task_id: i64) -> anyhow::Result<String> {
    let found = get(connection, &format!("/v1/tasks?task_id={task_id}")).await?;
    let place = found.pointer("/items/0/ref").and_then(Value::as_str);
    place.map(str::to_owned).with_context(|| format!("there is no task {task_id}"))
}
