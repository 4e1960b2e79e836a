//! Checks an installation as an operator does: whether each engine is ready, what is in its queues, its alerts and
//! its books, and how single tasks ended. Reads only; must never change anything.

use super::{
    field::{Field, attempt, integer, text, value},
    judge::TaskEnd,
    tasks::{CONCURRENCY, LANES, Lane},
};
use crate::http::Connection;
use anyhow::Context as _;
use serde_json::Value;
use std::{collections::HashMap, time::Duration};

const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// They tell what the run does on purpose, and stay for a minute; that an engine was killed for ten, even if another replaced it.
const EXPECTED_ALERTS: [&str; 6] =
    ["late_tasks", "dead_letters", "waiting_long", "fired_early", "engine_lost", "inbox_behind"];

/// Returns `None` if there is no answer, or no success.
async fn get(connection: &mut Connection, path: &str) -> Option<Value> {
    let answer = connection.get(path, ANSWER_LIMIT).await.ok()?;
    answer.is_success().then(|| value(&answer))
}

/// Every engine says that it can serve.
pub(crate) async fn are_ready(field: &Field) -> bool {
    for n in 0..field.engines {
        if get(&mut Connection::new(field.target.only(n)), "/readyz").await.is_none() {
            return false;
        }
    }
    true
}

/// Describes everything that is not quiet yet; empty when all is.
pub(crate) async fn unrest(field: &Field, partitions: Option<u64>) -> Vec<String> {
    let mut unrest = Vec::new();
    let mut owned = 0;
    for n in 0..field.engines {
        let mut connection = Connection::new(field.target.only(n));
        let ready = get(&mut connection, "/readyz").await;
        let status = ready.as_ref().map_or("nothing", |value| text(value, "status"));
        if status != "ready" {
            unrest.push(format!("engine {n} says {status:?} of its readiness"));
        }
        match metrics(&mut connection).await {
            None => unrest.push(format!("engine {n} tells no metrics")),
            Some(metrics) => {
                let of = |name: &str| metrics.get(name).copied().unwrap_or(0.0);
                for name in
                    ["punctual_tasks_unaccounted", "punctual_hot_firing_tasks", "punctual_wheel_tasks"]
                {
                    if of(name) != 0.0 {
                        unrest.push(format!("engine {n}: {name} is {}", of(name)));
                    }
                }
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small count")]
                let partitions_of = of("punctual_partitions_owned") as u64;
                owned += partitions_of;
            }
        }
        match get(&mut connection, "/v1/alerts").await {
            None => unrest.push(format!("engine {n} tells no alerts")),
            Some(alerts) => unrest.extend(unexpected(&alerts).map(|text| format!("engine {n}: {text}"))),
        }
    }
    if partitions.is_some_and(|partitions| partitions != owned) {
        unrest.push(format!("{owned} partitions are owned"));
    }
    unrest.extend(unrest_of_queues(field).await);
    unrest
}

fn unexpected(alerts: &Value) -> impl Iterator<Item = String> {
    let items = alerts.get("items").and_then(Value::as_array).into_iter().flatten();
    let unexpected = items.filter(|item| !EXPECTED_ALERTS.contains(&text(item, "name")));
    unexpected.map(|entry| format!("alert {}: {}", text(entry, "name"), text(entry, "text")))
}

async fn unrest_of_queues(field: &Field) -> Vec<String> {
    let mut connection = Connection::new(field.target.clone());
    let mut unrest = Vec::new();
    for lane in LANES {
        let name = lane.queue();
        let Some(queue) = get(&mut connection, &format!("/v1/queues/{name}")).await else {
            unrest.push(format!("nobody tells what stands in queue {name}"));
            continue;
        };
        let states = queue.get("tasks").and_then(Value::as_object).into_iter().flatten();
        for (state, count) in states.filter(|(state, _)| !is_over(state)) {
            if count.as_i64() != Some(0) {
                unrest.push(format!("queue {name}: {count} {state}"));
            }
        }
        let held = queue.get("slots").map_or(0, |slots| integer(slots, "held"));
        if held != 0 {
            unrest.push(format!("queue {name}: {held} slots are held"));
        }
    }
    unrest
}

pub(crate) fn is_over(state: &str) -> bool {
    matches!(state, "succeeded" | "dead" | "cancelled" | "stopped")
}

/// The metrics without labels.
async fn metrics(connection: &mut Connection) -> Option<HashMap<String, f64>> {
    let answer = connection.get("/metrics", ANSWER_LIMIT).await.ok()?;
    let text = std::str::from_utf8(answer.body).ok().filter(|_| answer.status == 200)?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let single = lines.filter_map(|line| line.split_once(' ')).filter(|(name, _)| !name.contains('{'));
    Some(single.filter_map(|(name, number)| Some((name.to_owned(), number.parse().ok()?))).collect())
}

/// True if the task with this reference is over. `None` if unknown.
pub(crate) async fn is_task_over(connection: &mut Connection, reference: &str) -> Option<bool> {
    Some(is_over(text(&get(connection, &format!("/v1/tasks/{reference}")).await?, "state")))
}

/// The number of the database of each partition; none where there is but one store.
pub(crate) async fn databases(field: &Field) -> anyhow::Result<HashMap<u16, u64>> {
    let mut connection = Connection::new(field.target.clone());
    let page = asked(&mut connection, "/v1/partitions?limit=1000").await?;
    let items = page.get("items").and_then(Value::as_array).into_iter().flatten();
    let number = |value: &Value, name: &str| value.get(name).and_then(Value::as_u64);
    let of = |name| Some((u16::try_from(number(name, "partition")?).ok()?, number(name, "database")?));
    Ok(items.filter_map(of).collect())
}

/// The state of every task of the run that an engine lists.
pub(crate) async fn ends(field: &Field) -> anyhow::Result<HashMap<usize, TaskEnd>> {
    let mut connection = Connection::new(field.target.clone());
    let mut ends = HashMap::new();
    for lane in LANES {
        for item in all_of(field, lane.queue()).await? {
            if let Some(n) = field.index(integer(&item, "task_id")) {
                let (state, attempt) = (text(&item, "state").to_owned(), attempt(&item));
                ends.insert(n, TaskEnd { state, attempt, leases: vec![] });
            }
        }
    }
    for n in doubtful(field, &ends) {
        if let Some((end, _)) = one(field, &mut connection, n).await? {
            ends.insert(n, end);
        }
    }
    Ok(ends)
}

/// The tasks of a queue that an engine lists.
pub(crate) async fn all_of(field: &Field, queue: &str) -> anyhow::Result<Vec<Value>> {
    let mut connection = Connection::new(field.target.clone());
    let (mut tasks, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = asked(&mut connection, &format!("/v1/tasks?queue={queue}&limit=1000{cursor}")).await?;
        tasks.extend(page.get("items").and_then(Value::as_array).into_iter().flatten().cloned());
        match text(&page, "next_cursor") {
            "" => return Ok(tasks),
            next => cursor = format!("&cursor={next}"),
        }
    }
}

/// The tasks that must be read once more: acknowledged and in no list; or dead without a receipt of each attempt.
fn doubtful(field: &Field, ends: &HashMap<usize, TaskEnd>) -> Vec<usize> {
    let book = field.book.lock();
    let tracks = book.tracks.iter().enumerate();
    let is_doubtful = |n: usize, track: &super::book::Track| match ends.get(&n) {
        None => track.acked_us.is_some(),
        Some(end) => {
            let seen = |attempt| track.receipts.iter().any(|receipt| receipt.attempt == attempt);
            end.state == "dead" && !(1..=end.attempt).all(seen)
        }
    };
    tracks.filter(|(n, track)| is_doubtful(*n, track)).map(|(n, _)| n).collect()
}

/// Reads a task with its history. `None` if it does not exist.
pub(crate) async fn one(
    field: &Field,
    connection: &mut Connection,
    n: usize,
) -> anyhow::Result<Option<(TaskEnd, Value)>> {
    let task_id = field.task_id(n);
    let found = asked(connection, &format!("/v1/tasks?task_id={task_id}")).await?;
    let Some(item) = found.get("items").and_then(|value| value.get(0)) else { return Ok(None) };
    let task = asked(connection, &format!("/v1/tasks/{}", text(item, "ref"))).await?;
    let history = task.get("history").and_then(Value::as_array).into_iter().flatten();
    let leased = history.filter(|entry| text(entry, "to") == "dispatched");
    let leases = leased.map(|entry| (attempt(entry), integer(entry, "at_ms"))).collect();
    let end = TaskEnd { state: text(&task, "state").to_owned(), attempt: attempt(&task), leases };
    Ok(Some((end, task)))
}

/// A few times, in case the engine is busy.
async fn asked(connection: &mut Connection, path: &str) -> anyhow::Result<Value> {
    let mut last = String::new();
    for _ in 0..10 {
        match connection.get(path, Duration::from_secs(30)).await {
            Ok(answer) if answer.is_success() => return Ok(value(&answer)),
            Ok(answer) => last = answer.describe(),
            Err(error) => last = error.to_string(),
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Err(anyhow::anyhow!(last)).context(path.to_owned())
}

/// `hands_over`: while its database is unavailable.
pub(crate) async fn set_queue(field: &Field, lane: Lane, hands_over: bool) -> anyhow::Result<()> {
    field.recorder.lock().leases_are_open = hands_over;
    let mut settings = serde_json::Map::new();
    if lane == Lane::Limited {
        settings.insert("concurrency".to_owned(), CONCURRENCY.into());
    }
    if hands_over {
        settings.insert("while_store_is_away".to_owned(), "hand_over".into());
    }
    if settings.is_empty() {
        return Ok(());
    }
    let (queue, body) = (lane.queue(), Value::Object(settings).to_string());
    let mut connection = Connection::new(field.target.clone());
    let answer = connection.put(&format!("/v1/queues/{queue}"), body.as_bytes(), ANSWER_LIMIT).await?;
    anyhow::ensure!(answer.is_success(), "setting queue {queue}: {}", answer.describe());
    Ok(())
}
