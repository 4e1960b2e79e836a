//! The viewers: logins, each with a token of its own, and the times of the pages that they request. Pages are
//! requested in rounds, so that each is requested when its data was stored for long enough; the first time is
//! reported by itself.

use super::{
    fill::{Filled, post, queue},
    options::ConsoleOptions,
    page::{ANSWER_LIMIT, PageReport},
};
use crate::{
    clock::{now_us, seconds},
    http::{Connection, Target},
    progress::note,
};
use anyhow::Context as _;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// The viewers, as a browser of each.
pub(super) struct Visitors {
    pub(super) viewers: Vec<Target>,
    pub(super) admin: Target,
}

impl Visitors {
    /// `target`: with an admin's token.
    pub(super) async fn sign_in(target: &Target, viewers: usize) -> anyhow::Result<Self> {
        note(&format!("{viewers} viewers sign in"));
        let mut connection = Connection::new(target.clone());
        let mut all = Self { viewers: Vec::new(), admin: target.clone() };
        for nth in 0..=viewers {
            let role = if nth == viewers { "admin" } else { "viewer" };
            let body = format!(r#"{{"name":"console-{nth}","roles":["{role}"]}}"#);
            let made = post(&mut connection, "/v1/tokens", &body).await?;
            let token = made.get("token").and_then(Value::as_str).context("the answer has no token")?;
            let signed_in = target.with_cookie(&cookie(target, token).await?);
            if nth == viewers {
                all.admin = signed_in;
            } else {
                all.viewers.push(signed_in);
            }
        }
        Ok(all)
    }
}

/// The cookie that the form of a browser gets.
async fn cookie(target: &Target, token: &str) -> anyhow::Result<String> {
    let host = target.with_cookie("");
    let (address, headers) = host.raw();
    let body = format!("token={token}");
    let request = format!(
        "POST /console/login HTTP/1.1\r\n{headers}sec-fetch-site: same-origin\r\nconnection: close\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    let lines = answer.lines().take_while(|one| !one.is_empty());
    let mut cookies =
        lines.filter_map(|one| one.split_once(": ").filter(|one| one.0.eq_ignore_ascii_case("set-cookie")));
    let cookie = cookies.next().and_then(|one| one.1.split(';').next());
    cookie.map(str::to_owned).with_context(|| format!("no session: {}", answer.lines().next().unwrap_or("")))
}

/// A page of each kind; `true`: an admin's.
pub(super) async fn addresses(
    visitors: &Visitors,
    filled: &Filled,
    base: i64,
) -> anyhow::Result<Vec<(String, bool)>> {
    let (task, dead, workflow, one) = (&filled.task, &filled.dead, &filled.workflow, queue(0));
    let mut all: Vec<(String, bool)> = [
        String::new(),
        "/queues".to_owned(),
        "/queues?prefix=console-0009".to_owned(),
        "/queues?paused=true".to_owned(),
        format!("/queues/{one}"),
        format!("/queues/{one}/settings"),
        "/tasks".to_owned(),
        format!("/tasks?queue={one}&state=scheduled"),
        "/tasks?state=dead".to_owned(),
        "/tasks?state=running".to_owned(),
        "/tasks?state=cancelled".to_owned(),
        "/tasks?state=succeeded".to_owned(),
        "/tasks?kind=rare".to_owned(),
        format!("/tasks?queue={one}&kind=rare"),
        "/tasks?kind=of-nobody".to_owned(),
        "/tasks?label=customer%3Dnobody".to_owned(),
        format!("/tasks?task_id={base}"),
        format!("/tasks/{task}"),
        format!("/tasks/{dead}"),
        format!("/find?q={task}"),
        format!("/find?q={base}"),
        format!("/find?q={one}"),
        "/find?q=nothing-of-this-name".to_owned(),
        "/schedules".to_owned(),
        "/schedules/console-1".to_owned(),
        "/schedules/new".to_owned(),
        "/workflows".to_owned(),
        format!("/workflows/{workflow}"),
        "/dead-letters".to_owned(),
        "/dead-letters?error=mailbox".to_owned(),
        "/dead-letters?error=of-nobody".to_owned(),
        "/bulk".to_owned(),
        "/executors".to_owned(),
        "/executors/console-1".to_owned(),
        "/engines".to_owned(),
        "/events".to_owned(),
        "/lateness".to_owned(),
        "/namespaces".to_owned(),
        "/settings".to_owned(),
    ]
    .into_iter()
    .map(|one| (format!("/console{one}"), false))
    .collect();
    all.extend(["/console/tokens", "/console/audit"].map(|one| (one.to_owned(), true)));
    let viewer = visitors.viewers.first().context("there is a viewer")?;
    for list in ["/console/queues", "/console/tasks", "/console/tasks?state=dead"] {
        all.push((later(viewer, list).await?.unwrap_or_else(|| list.to_owned()), false));
    }
    Ok(all)
}

/// The third page of a list, as far as it has so many. `None` if it has one.
async fn later(viewer: &Target, list: &str) -> anyhow::Result<Option<String>> {
    let mut connection = Connection::new(viewer.clone());
    let (mut address, mut found) = (list.to_owned(), None);
    for _ in 0..2 {
        let answer = connection.get(&address, ANSWER_LIMIT).await?;
        anyhow::ensure!(answer.is_success(), "{address}: {}", answer.describe());
        let text = String::from_utf8_lossy(answer.body);
        let Some((_, rest)) = text.split_once(r#"rel="next" href=""#) else { break };
        let Some((next, _)) = rest.split_once('"') else { break };
        address = next.replace("&amp;", "&");
        found = Some(address.clone());
    }
    Ok(found)
}

/// Measures in rounds: each page once, then each again.
pub(super) async fn measure(
    options: &ConsoleOptions,
    visitors: &Visitors,
    addresses: &[(String, bool)],
) -> anyhow::Result<Vec<PageReport>> {
    let mut connections: Vec<Connection> =
        visitors.viewers.iter().map(|viewer| Connection::new(viewer.clone())).collect();
    let mut admin = Connection::new(visitors.admin.clone());
    let mut took_ms: Vec<Vec<f64>> = vec![Vec::new(); addresses.len()];
    let mut bytes = vec![0; addresses.len()];
    let (viewers, mut asked) = (connections.len(), 0);
    for _ in 0..options.repeat.max(1) {
        for (nth, (address, is_admins)) in addresses.iter().enumerate() {
            asked += 1;
            let viewer = connections.get_mut(asked % viewers);
            let connection = if *is_admins { &mut admin } else { viewer.context("there is a viewer")? };
            let began_us = now_us();
            let answer = connection.get(address, ANSWER_LIMIT).await?;
            anyhow::ensure!(answer.is_success(), "{address}: {}", answer.describe());
            let took = seconds(now_us() - began_us) * 1e3;
            if let Some((all, bytes)) = took_ms.get_mut(nth).zip(bytes.get_mut(nth)) {
                all.push(took);
                *bytes = answer.body.len();
            }
        }
    }
    let reported = addresses.iter().zip(took_ms).zip(bytes);
    Ok(reported.map(|((address, took), bytes)| PageReport::new(address.0.clone(), bytes, took)).collect())
}
