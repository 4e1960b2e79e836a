//! How soon one engine acts on what was said to another one: a queue is resumed, a token is revoked. Each is done ten times
//! on two engines, and the slowest counts. Must never ask the other engine for what was changed before it is measured:
//! a question could be what it learns by.

use super::{
    figure::{Figure, Unit},
    rows::TWO,
    site::BarsSite,
};
use crate::{
    clock::{now_ms, now_us, seconds},
    command::LoadCommand,
    http::{Connection, Target},
    run::prepare_as,
    server::Server,
};
use anyhow::Context as _;
use serde_json::{Value, json};
use std::time::Duration;

const ROUNDS: usize = 10;
const BAR_S: f64 = 1.0;
/// The time limit of one call, beyond its wait.
const CALL_LIMIT: Duration = Duration::from_secs(30);
/// The time from the call of the executor to the resumption: it waits at the other engine by then.
const PAUSE: Duration = Duration::from_millis(500);
/// A token that one engine made is known to the other by then.
const KNOWN_AFTER: Duration = Duration::from_secs(2);
/// The pause between two requests with a token that must be refused.
const POLL: Duration = Duration::from_millis(10);
/// A token that is taken for longer is not revoked there.
const REFUSED_WITHIN_S: f64 = 60.0;
const WAIT_MS: u64 = 20_000;

impl BarsSite {
    pub(super) async fn resumed_elsewhere(&self, what: &str) -> anyhow::Result<Figure> {
        let (server, target) = self.two(&["submitter", "executor", "operator"]).await?;
        let mut here = Connection::new(target.only(0));
        let mut slowest_s = 0.0_f64;
        for round in 0..ROUNDS {
            let queue = format!("resumed-{round}");
            call(&mut here, &format!("/v1/queues/{queue}/pause"), &json!({})).await?;
            let task =
                json!({"task_id": round + 1, "queue": queue, "execute_at_ms": now_ms(), "payload": {}});
            call(&mut here, "/v1/tasks", &task).await?;
            let resumption = async {
                tokio::time::sleep(PAUSE).await;
                let resumed_us = now_us();
                call(&mut here, &format!("/v1/queues/{queue}/resume"), &json!({})).await?;
                anyhow::Ok(resumed_us)
            };
            let waiting = first_task(target.only(1), &queue);
            let (came_us, resumed_us) = tokio::try_join!(waiting, resumption)?;
            anyhow::ensure!(came_us > resumed_us, "a task of a paused queue was handed over");
            slowest_s = slowest_s.max(seconds(came_us - resumed_us));
        }
        server.end().await?;
        Ok(Figure::at_most(what, Unit::Seconds, slowest_s, BAR_S))
    }

    pub(super) async fn revoked_elsewhere(&self, what: &str) -> anyhow::Result<Figure> {
        let (server, target) = self.two(&["admin"]).await?;
        let mut here = Connection::new(target.only(0));
        let mut slowest_s = 0.0_f64;
        for round in 0..ROUNDS {
            let wanted = json!({"name": format!("revoked-{round}"), "roles": ["viewer"]});
            let made = call(&mut here, "/v1/tokens", &wanted).await?;
            let (token, id) =
                (text(&made, "token")?, made.get("id").context("a token has an id")?.to_string());
            let url = target.only(1).urls();
            let mut elsewhere = Connection::new(Target::new(&url, None, Some(&token))?);
            // A token that is not known yet is a guess, and an address that guesses often is kept waiting.
            tokio::time::sleep(KNOWN_AFTER).await;
            let answer = elsewhere.get("/v1/tasks?limit=1", CALL_LIMIT).await?;
            anyhow::ensure!(answer.is_success(), "a token of the other engine: {}", answer.describe());
            let revoked_us = now_us();
            let path = format!("/v1/tokens/{}", id.trim_matches('"'));
            let answer = here.delete(&path, CALL_LIMIT).await?;
            anyhow::ensure!(answer.is_success(), "{}", answer.describe());
            loop {
                let answer = elsewhere.get("/v1/tasks?limit=1", CALL_LIMIT).await?;
                if answer.status == 401 {
                    break;
                }
                anyhow::ensure!(answer.is_success(), "neither taken nor refused: {}", answer.describe());
                let waited_s = seconds(now_us() - revoked_us);
                anyhow::ensure!(
                    waited_s < REFUSED_WITHIN_S,
                    "still taken {waited_s:.0} s after the revocation"
                );
                tokio::time::sleep(POLL).await;
            }
            slowest_s = slowest_s.max(seconds(now_us() - revoked_us));
        }
        server.end().await?;
        Ok(Figure::at_most(what, Unit::Seconds, slowest_s, BAR_S))
    }

    /// Two engines that want tokens, and one token of these roles.
    async fn two(&self, roles: &[&str]) -> anyhow::Result<(Server, Target)> {
        let words = format!("run --scenario sustained --rate 1 --with-token {TWO}");
        let LoadCommand::Run(options) = self.parsed(&words)? else { anyhow::bail!("the words say run") };
        prepare_as(&options.server, None, roles).await
    }
}

async fn call(connection: &mut Connection, path: &str, body: &Value) -> anyhow::Result<Value> {
    let answer = connection.post(path, body.to_string().as_bytes(), CALL_LIMIT).await?;
    anyhow::ensure!(answer.is_success(), "POST {path}: {}", answer.describe());
    Ok(serde_json::from_slice(answer.body)?)
}

fn text(value: &Value, name: &str) -> anyhow::Result<String> {
    value.get(name).and_then(Value::as_str).map(str::to_owned).with_context(|| format!("no {name} in it"))
}

/// When an executor there was given the first task.
async fn first_task(target: Target, queue: &str) -> anyhow::Result<i64> {
    let mut connection = Connection::new(target);
    let asked = json!({"max": 1, "wait_ms": WAIT_MS, "lease_ms": 60_000, "executor": "elsewhere"});
    let leased = call(&mut connection, &format!("/v1/queues/{queue}/lease"), &asked).await?;
    let came_us = now_us();
    let tasks = leased.get("tasks").and_then(Value::as_array).context("a lease has tasks")?;
    anyhow::ensure!(tasks.len() == 1, "no task came within {WAIT_MS} ms of the resumption");
    Ok(came_us)
}
