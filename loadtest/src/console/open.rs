//! Pages that are open and live, each of another viewer, over different pages. It counts their messages: renderings,
//! the slow ones, and everything else.

use super::{
    fill::{Filled, queue},
    options::ConsoleOptions,
    visit::Visitors,
};
use crate::{clock::now_us, http::Target};
use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
};

const LOOK: Duration = Duration::from_millis(20);
/// The time limit until every page has received something.
const OPENING: Duration = Duration::from_secs(60);

/// The counts of messages.
#[derive(Debug, Default)]
pub(super) struct Counted {
    begun: AtomicUsize,
    looks: AtomicUsize,
    slow: AtomicUsize,
    parts: AtomicUsize,
    faults: AtomicUsize,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sent {
    pub(crate) looks: usize,
    /// Of them, the renderings of pages that are rendered less often.
    pub(crate) slow: usize,
    pub(crate) parts: usize,
    /// Faults, ends, and pages that found no place.
    pub(crate) faults: usize,
}

impl Counted {
    pub(super) fn sent(&self) -> Sent {
        Sent {
            looks: self.looks.load(Relaxed),
            slow: self.slow.load(Relaxed),
            parts: self.parts.load(Relaxed),
            faults: self.faults.load(Relaxed),
        }
    }
}

impl Sent {
    pub(super) const fn since(self, before: Self) -> Self {
        Self {
            looks: self.looks - before.looks,
            slow: self.slow - before.slow,
            parts: self.parts - before.parts,
            faults: self.faults - before.faults,
        }
    }
}

/// Different pages: frequent ones, and those of single queues.
fn page(nth: usize, filled: &Filled) -> String {
    let fixed = ["", "/queues", "/engines", "/lateness", "/executors", "/workflows", "/schedules", "/bulk"];
    match nth % 4 {
        0 => format!("/console/queues/{}", queue(nth)),
        1 => format!("/console/tasks/{}", if nth % 8 == 1 { &filled.task } else { &filled.dead }),
        _ => format!("/console{}", fixed.get(nth / 2 % fixed.len()).unwrap_or(&"")),
    }
}

/// Opens the pages. Each has received a rendering when this returns.
pub(super) async fn open(
    options: &ConsoleOptions,
    visitors: &Visitors,
    filled: &Filled,
    counted: &Arc<Counted>,
) -> anyhow::Result<JoinSet<anyhow::Result<()>>> {
    let mut watchers = JoinSet::new();
    for (nth, viewer) in visitors.viewers.iter().cycle().take(options.open).enumerate() {
        watchers.spawn(watch(viewer.clone(), page(nth, filled), Arc::clone(counted)));
    }
    let until_us = now_us() + i64::try_from(OPENING.as_micros()).unwrap_or(i64::MAX);
    while counted.begun.load(Relaxed) < options.open {
        check(&mut watchers)?;
        anyhow::ensure!(
            now_us() < until_us,
            "only {} pages were sent something",
            counted.begun.load(Relaxed)
        );
        tokio::time::sleep(LOOK).await;
    }
    Ok(watchers)
}

/// An error when one has ended.
pub(super) fn check(watchers: &mut JoinSet<anyhow::Result<()>>) -> anyhow::Result<()> {
    match watchers.try_join_next() {
        Some(ended) => ended.context("a page that was open panicked")?,
        None => Ok(()),
    }
}

/// Streams that are ended after some time are opened again, as a page does.
async fn watch(viewer: Target, page: String, counted: Arc<Counted>) -> anyhow::Result<()> {
    let mut has_begun = false;
    loop {
        stream(&viewer, &page, &counted, &mut has_begun).await.with_context(|| page.clone())?;
    }
}

async fn stream(viewer: &Target, page: &str, counted: &Counted, has_begun: &mut bool) -> anyhow::Result<()> {
    let (address, headers) = viewer.raw();
    let of = page.replace('/', "%2F").replace('?', "%3F").replace('&', "%26");
    let request = format!("GET /console/live?of={of} HTTP/1.1\r\naccept: text/event-stream\r\n{headers}\r\n");
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request.as_bytes()).await?;
    let (mut read, mut text, mut is_first) = (vec![0; 64 << 10], String::new(), true);
    loop {
        let length = stream.read(&mut read).await?;
        anyhow::ensure!(length > 0, "it was ended without a word");
        text.push_str(&String::from_utf8_lossy(read.get(..length).unwrap_or_default()));
        anyhow::ensure!(!is_first || text.starts_with("HTTP/1.1 200"), "{text}");
        is_first = false;
        while let Some((event, rest)) = text.split_once("\n\n") {
            let (event, rest) = (event.to_owned(), rest.to_owned());
            text = rest;
            if is_over(&event, counted, has_begun)? {
                return Ok(());
            }
        }
    }
}

/// One event, of a body in chunks.
fn is_over(event: &str, counted: &Counted, has_begun: &mut bool) -> anyhow::Result<bool> {
    let name = event.lines().find_map(|one| one.strip_prefix("event: ")).map(str::trim);
    match name {
        Some("ok") => {
            counted.looks.fetch_add(1, Relaxed);
            counted.slow.fetch_add(usize::from(event.contains(r#""is_slow":true"#)), Relaxed);
            if !std::mem::replace(has_begun, true) {
                counted.begun.fetch_add(1, Relaxed);
            }
        }
        Some("part") => {
            counted.parts.fetch_add(1, Relaxed);
        }
        Some("end") if event.contains(r#""again""#) => return Ok(true),
        Some("fault") => {
            counted.faults.fetch_add(1, Relaxed);
        }
        Some("end" | "full") => anyhow::bail!("{event}"),
        _ => {}
    }
    Ok(false)
}
