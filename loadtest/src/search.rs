//! Measures searches over very many tasks: fills a server, then requests the first page of each kind of search. The
//! target is the oldest task, which a walk from the newest reaches last. Judged: if there is a key, the first page
//! arrives in time and has the target; if there is none, the page states how far it searched.

use crate::{
    clock::{now_ms, now_us},
    fill::fill,
    http::{Connection, Target},
    measure::{Percentiles, Spans},
    options::ServerOptions,
    progress::note,
    report::Report,
    run::prepare,
    scenario::{LoadSite, Scenario},
    server::Server,
};
use anyhow::Context as _;
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{fmt::Write as _, time::Duration};

#[derive(Args, Debug, Clone)]
pub(crate) struct SearchOptions {
    #[arg(long, default_value_t = 10_000_000)]
    pub(crate) tasks: usize,
    /// First pages of each search
    #[arg(long, default_value_t = 5)]
    pub(crate) repeat: usize,
    /// A first page that a key answers comes within this, ms
    #[arg(long, default_value_t = 1_000)]
    pub(crate) within_ms: u32,
    /// Connections that insert
    #[arg(long, default_value_t = 4)]
    pub(crate) connections: usize,
    /// One JSON object on stdout instead of the table
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerOptions,
}

const ANSWER_LIMIT: Duration = Duration::from_secs(120);
const QUEUES: usize = 10;
/// Queues that declare their label before there are tasks; the last does when all are there.
const DECLARED_FIRST: usize = 9;
const CUSTOMERS: usize = 100_000;
/// The oldest tasks, each found in a way of its own.
const RARE: usize = 0;
const DEAD: usize = 1;
const DEAD_IN_ALL: usize = 200;
/// First due, and over how long they are spread.
const AHEAD_MS: i64 = 2 * 86_400_000;
const SPREAD_MS: i64 = 30 * 86_400_000;
/// Pages that are followed to find what no key answers.
const PAGES_MAX: usize = 5_000;
const LOOK: Duration = Duration::from_millis(500);

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SearchReport {
    pub(crate) tasks: usize,
    pub(crate) fill_s: f64,
    /// The time from the declaration until all existing tasks are indexed.
    pub(crate) index_s: f64,
    pub(crate) searches: Vec<Searched>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Searched {
    pub(crate) name: String,
    /// The way of the search that the server reports.
    pub(crate) along: String,
    pub(crate) first_page: Percentiles,
    pub(crate) items: usize,
    /// The progress on a first page that is not full.
    pub(crate) through_percent: Option<f64>,
    /// The number of pages until something was found or all was searched, and their duration.
    pub(crate) pages: usize,
    pub(crate) to_the_end_ms: f64,
}

/// One kind of search.
struct Search {
    name: &'static str,
    path: String,
    /// The minimum number of tasks that it finds. `None` if no key answers it.
    keyed: Option<usize>,
}

impl Scenario for SearchOptions {
    type Report = SearchReport;

    async fn prepare(&self) -> anyhow::Result<(Server, Target)> {
        prepare(&self.server, None).await
    }

    async fn measure(&self, site: &mut LoadSite) -> anyhow::Result<SearchReport> {
        let target = &site.target;
        let base = now_ms() * 1_000;
        let mut connection = Connection::new(target.clone());
        for queue in 0..DECLARED_FIRST {
            declare(&mut connection, queue).await?;
        }
        note(&format!("filling in {} tasks", self.tasks));
        let began_us = now_us();
        let tasks = self.tasks.max(DEAD_IN_ALL * QUEUES);
        let from_ms = now_ms() + AHEAD_MS;
        fill(target, (tasks, self.connections), move |body, nth| {
            write_task(body, nth, (tasks, base, from_ms))
        })
        .await?;
        let fill_s = seconds_since(began_us);
        // The server ends connections that were idle for so long.
        let mut connection = Connection::new(target.clone());
        bury(&mut connection, base, tasks).await?;
        let began_us = now_us();
        for queue in DECLARED_FIRST..QUEUES {
            declare(&mut connection, queue).await?;
        }
        wait_until_indexed(&mut connection).await?;
        let index_s = seconds_since(began_us);
        let mut searched = Vec::new();
        for search in searches(&mut connection, (base, from_ms, tasks)).await? {
            note(search.name);
            let (result, broken) = self.search(target, &search).await?;
            searched.push(result);
            site.broken.extend(broken);
        }
        Ok(SearchReport { tasks, fill_s, index_s, searches: searched })
    }
}

impl SearchOptions {
    /// Runs a search. Returns its violations, in words.
    async fn search(&self, target: &Target, search: &Search) -> anyhow::Result<(Searched, Vec<String>)> {
        let mut connection = Connection::new(target.clone());
        let (mut spans, mut first) = (Spans::default(), Value::Null);
        for _ in 0..self.repeat.max(1) {
            let began_us = now_us();
            first = get(&mut connection, &search.path).await?;
            spans.record_us(now_us() - began_us);
        }
        let (pages, found, to_the_end_ms) = follow(&mut connection, search, &first).await?;
        let items = items(&first).unwrap_or(1);
        let searched = Searched {
            name: search.name.to_owned(),
            along: first.pointer("/search/along").and_then(Value::as_str).unwrap_or("reference").to_owned(),
            first_page: spans.percentiles(),
            items,
            through_percent: first.pointer("/search/through_percent").and_then(Value::as_f64),
            pages,
            to_the_end_ms,
        };
        let (slowest_ms, mut broken) = (searched.first_page.max_ms, Vec::new());
        if let Some(least) = search.keyed {
            if slowest_ms > f64::from(self.within_ms) {
                broken.push(format!("{}: the first page took {slowest_ms:.0} ms", search.name));
            }
            if items < least {
                broken.push(format!("{}: {items} of {least} are in the first page", search.name));
            }
        } else if found == 0 {
            broken.push(format!("{}: what exists was not found", search.name));
        } else if items == 0 && searched.through_percent.is_none() {
            broken.push(format!("{}: an empty page does not say how far it looked", search.name));
        }
        Ok((searched, broken))
    }
}

fn seconds_since(began_us: i64) -> f64 {
    crate::clock::seconds(now_us() - began_us)
}

fn write_task(body: &mut String, nth: usize, (tasks, base, from_ms): (usize, i64, i64)) {
    let number = i64::try_from(nth).unwrap_or(i64::MAX);
    let due_ms = from_ms + SPREAD_MS / i64::try_from(tasks).unwrap_or(1).max(1) * number;
    let queue = nth % QUEUES;
    let customer = if nth == RARE { "rare".to_owned() } else { format!("c{}", nth % CUSTOMERS) };
    let (kind, batch) = if nth == RARE { ("rare", "rare") } else { ("usual", "usual") };
    let _ = write!(
        body,
        r#"{{"queue":"search-{queue}","kind":"{kind}","task_id":{},"execute_at_ms":{due_ms},"labels":{{"customer":"{customer}","batch":"{batch}"}},"payload":{{"n":{nth}}}}}"#,
        base + number,
    );
}

async fn declare(connection: &mut Connection, queue: usize) -> anyhow::Result<()> {
    let (path, body) = (format!("/v1/queues/search-{queue}"), br#"{"indexed_labels":["customer"]}"#);
    let answer = connection.put(&path, body, ANSWER_LIMIT).await?;
    anyhow::ensure!(answer.is_success(), "declaring a label: {}", answer.describe());
    Ok(())
}

async fn wait_until_indexed(connection: &mut Connection) -> anyhow::Result<()> {
    for queue in 0..QUEUES {
        loop {
            let found = get(connection, &format!("/v1/queues/search-{queue}")).await?;
            if found.get("indexing").and_then(Value::as_array).is_none_or(Vec::is_empty) {
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
    }
    Ok(())
}

/// Evenly among all, the oldest with an error of its own.
async fn bury(connection: &mut Connection, base: i64, tasks: usize) -> anyhow::Result<()> {
    for nth in 0..DEAD_IN_ALL {
        let number = DEAD + nth * (tasks / DEAD_IN_ALL / 10 * 10);
        let reason = if nth == 0 { "mailbox full" } else { "card declined" };
        let place = reference(connection, base + i64::try_from(number)?).await?;
        let body = format!(r#"{{"reason":"{reason}"}}"#);
        let path = format!("/v1/tasks/{place}/bury");
        let answer = connection.post(&path, body.as_bytes(), ANSWER_LIMIT).await?;
        anyhow::ensure!(answer.is_success(), "burying a task: {}", answer.describe());
    }
    Ok(())
}

async fn get(connection: &mut Connection, path: &str) -> anyhow::Result<Value> {
    let answer = connection.get(path, ANSWER_LIMIT).await?;
    anyhow::ensure!(answer.is_success(), "{path}: {}", answer.describe());
    Ok(serde_json::from_slice(answer.body)?)
}

async fn reference(connection: &mut Connection, task_id: i64) -> anyhow::Result<String> {
    let found = get(connection, &format!("/v1/tasks?task_id={task_id}")).await?;
    let place = found.pointer("/items/0/ref").and_then(Value::as_str);
    place.map(str::to_owned).with_context(|| format!("there is no task {task_id}"))
}

async fn searches(
    connection: &mut Connection,
    (base, from_ms, tasks): (i64, i64, usize),
) -> anyhow::Result<Vec<Search>> {
    let oldest = reference(connection, base).await?;
    let step_ms = SPREAD_MS / i64::try_from(tasks)?.max(1);
    let tasks_search = |query: String| format!("/v1/tasks?limit=20&{query}");
    let middle_ms = from_ms + SPREAD_MS / 2;
    let range = |from_ms: i64, tasks: i64| {
        format!("due_after={from_ms}&due_before={}", from_ms + (step_ms * tasks).max(1))
    };
    let search = |name, path, keyed| Search { name, path, keyed };
    Ok(vec![
        search("by reference", format!("/v1/tasks/{oldest}"), Some(1)),
        search("by task_id", format!("/v1/tasks?task_id={base}"), Some(1)),
        search("newest of a queue", tasks_search("queue=search-3".to_owned()), Some(20)),
        search(
            "label, the oldest alone",
            tasks_search("queue=search-0&label=customer=rare".to_owned()),
            Some(1),
        ),
        search("label, in all queues", tasks_search("label=customer=rare".to_owned()), Some(1)),
        search("label, declared later", tasks_search("queue=search-9&label=customer=c9".to_owned()), Some(1)),
        search("label of nobody", tasks_search("label=customer=nobody".to_owned()), Some(0)),
        search(
            "queue, state, time range",
            tasks_search(format!("queue=search-3&state=scheduled&{}", range(middle_ms, 500))),
            Some(20),
        ),
        search(
            "queue, state, the first hours",
            tasks_search(format!("queue=search-0&state=scheduled&{}", range(from_ms, 1_000))),
            Some(20),
        ),
        search(
            "a state that none has, time range",
            tasks_search(format!("state=cancelled&{}", range(middle_ms, 1_000))),
            Some(0),
        ),
        search("the dead", "/v1/dead-letters?limit=20".to_owned(), Some(20)),
        search("the dead, by error", "/v1/dead-letters?limit=20&error=mailbox".to_owned(), Some(1)),
        search("kind, the oldest alone", tasks_search("kind=rare".to_owned()), None),
        search("label that is not declared", tasks_search("label=batch=rare".to_owned()), None),
    ])
}

impl Report for SearchReport {
    fn table(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{} tasks, filled in within {:.0} s; one queue indexed afterwards within {:.0} s",
            self.tasks, self.fill_s, self.index_s
        );
        for search in &self.searches {
            let page = &search.first_page;
            let through = search
                .through_percent
                .map(|through_percent| format!(", looked through {through_percent} %"))
                .unwrap_or_default();
            let further = if search.pages > 1 {
                format!("; {} pages in {:.0} ms", search.pages, search.to_the_end_ms)
            } else {
                String::new()
            };
            let _ = writeln!(
                text,
                "{:<36} {:<9} p50 {:>8.1} ms  max {:>8.1} ms  {:>4} items{through}{further}",
                search.name, search.along, page.p50_ms, page.max_ms, search.items
            );
        }
        text
    }
}

fn items(page: &Value) -> Option<usize> {
    page.get("items").and_then(Value::as_array).map(Vec::len)
}

/// Follows the pages from the first to the first that has something, or to the last: returns their number, the
/// results, and their duration.
async fn follow(
    connection: &mut Connection,
    search: &Search,
    first: &Value,
) -> anyhow::Result<(usize, usize, f64)> {
    let began_us = now_us();
    let (mut page, mut count) = (first.clone(), 1);
    while items(&page) == Some(0) && count < PAGES_MAX {
        let Some(cursor) = page.get("next_cursor").and_then(Value::as_str) else { break };
        page = get(connection, &format!("{}&cursor={cursor}", search.path)).await?;
        count += 1;
    }
    Ok((count, items(&page).unwrap_or(1), seconds_since(began_us) * 1e3))
}
