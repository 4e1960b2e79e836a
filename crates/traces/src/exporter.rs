//! Ended attempts and tasks wait in a bounded list; a service reads their histories in batches and sends
//! their spans. A collector that is unavailable, slow, or refuses, costs spans and nothing else.

use crate::{
    context::TraceContext,
    messages::OtlpSpan,
    otlp::{self, Protocol},
    spans,
};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use punctual_domain::{place::TaskRef, task::Task, time::Millis};
use punctual_engine::Engine;
use reqwest::header::HeaderMap;
use std::{
    collections::{HashSet, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// The maximum number of tasks that wait; further ones are dropped.
const WAITING_MAX: usize = 10_000;
/// Ends that are remembered, so that each is sent once although every attempt of a task triggers it.
const REPORTED_MAX: usize = 10_000;
/// Tasks of one request.
const BATCH: usize = 200;
/// Requests of one run.
const BATCHES: usize = 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The collector's endpoint for OTLP over HTTP, with `/v1/traces`.
    pub endpoint: String,
    pub protocol: Protocol,
    /// A collector that answers no sooner has failed.
    pub timeout: Duration,
    /// Attributes of the resource; `service.name` is `punctual` unless it is among them.
    pub resource: Vec<(String, String)>,
    /// The percentage of the callers' sampled traces that is sent.
    pub sample_percent: u8,
    /// The headers of each request; their values are secrets, and marked so.
    pub headers: HeaderMap,
}

/// Cheap to clone; all clones are the same.
#[derive(Clone, Debug)]
pub struct Traces(Arc<ExporterState>);

#[derive(Debug)]
struct ExporterState {
    engine: Engine,
    options: Options,
    client: reqwest::Client,
    waiting: Mutex<VecDeque<TaskRef>>,
    reported: Mutex<ReportedEnds>,
    exported: AtomicU64,
    dropped: AtomicU64,
    failures: AtomicU64,
}

/// An ended task, and when: a redriven task ends again.
type End = (i64, Millis);

#[derive(Debug, Default)]
struct ReportedEnds {
    ends: HashSet<End>,
    order: VecDeque<End>,
}

impl ReportedEnds {
    /// False if it was sent before.
    fn is_new(&mut self, end: End) -> bool {
        if !self.ends.insert(end) {
            return false;
        }
        self.order.push_back(end);
        if self.order.len() > REPORTED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.ends.remove(&oldest);
        }
        true
    }
}

impl Traces {
    /// # Errors
    /// If no client can be made, because TLS is unavailable.
    pub fn new(engine: Engine, options: Options) -> Result<Self, reqwest::Error> {
        let client = reqwest::Client::builder()
            .timeout(options.timeout)
            .default_headers(options.headers.clone())
            .build()?;
        let (exported, dropped, failures) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let (waiting, reported) = (Mutex::default(), Mutex::default());
        Ok(Self(Arc::new(ExporterState {
            engine,
            options,
            client,
            waiting,
            reported,
            exported,
            dropped,
            failures,
        })))
    }

    /// The `traceparent` of an attempt's executor: its spans are below the run of this attempt. Unchanged if
    /// the trace is not sent.
    #[must_use]
    pub fn handed(&self, traceparent: String, task: i64, attempt: u32) -> String {
        match TraceContext::read(&traceparent)
            .filter(|traceparent| traceparent.is_reported(self.0.options.sample_percent))
        {
            Some(context) => context.of_attempt(task, attempt),
            None => traceparent,
        }
    }

    /// An attempt of this task, or the task, has ended. Does not wait.
    pub fn ended(&self, task: TaskRef) {
        let mut waiting = self.0.waiting.lock();
        if waiting.len() < WAITING_MAX {
            waiting.push_back(task);
        } else {
            self.0.dropped.fetch_add(1, Relaxed);
        }
    }

    /// Spans that a collector has accepted; tasks without sent spans although they were, or may have been,
    /// sampled; failed requests.
    #[must_use]
    pub fn counts(&self) -> (u64, u64, u64) {
        let traces = &self.0;
        (traces.exported.load(Relaxed), traces.dropped.load(Relaxed), traces.failures.load(Relaxed))
    }

    /// Returns the number of reported spans. Never fails: a collector that is unavailable is no failure of the
    /// engine.
    pub fn run_once(&self) -> BoxFuture<'_, usize> {
        Box::pin(async move {
            let mut reported = 0;
            for _ in 0..BATCHES {
                let batch: Vec<TaskRef> = {
                    let mut waiting = self.0.waiting.lock();
                    let count = waiting.len().min(BATCH);
                    waiting.drain(..count).collect()
                };
                if batch.is_empty() {
                    break;
                }
                reported += self.export(batch).await;
            }
            reported
        })
    }

    async fn export(&self, batch: Vec<TaskRef>) -> usize {
        let asked = batch.len();
        let Ok(read) = self.0.engine.read_each(batch).await else {
            self.drop_tasks(asked, "the store does not answer");
            return 0;
        };
        let (mut spans, mut tasks) = (Vec::new(), 0);
        for answer in read {
            match answer {
                Ok(Some(task)) => {
                    let of_task = self.spans(&task);
                    tasks += usize::from(!of_task.is_empty());
                    spans.extend(of_task);
                }
                Ok(None) => {}
                Err(_) => self.drop_tasks(1, "the store does not answer"),
            }
        }
        if spans.is_empty() {
            return 0;
        }
        let count = spans.len();
        match self.send(spans).await {
            Ok(()) => {
                self.0.exported.fetch_add(u64::try_from(count).unwrap_or(u64::MAX), Relaxed);
                count
            }
            Err(why) => {
                self.0.failures.fetch_add(1, Relaxed);
                self.drop_tasks(tasks, &why);
                0
            }
        }
    }

    fn drop_tasks(&self, tasks: usize, why: &str) {
        self.0.dropped.fetch_add(u64::try_from(tasks).unwrap_or(u64::MAX), Relaxed);
        tracing::warn!(tasks, why, "traces of tasks could not be exported, and are dropped");
    }

    /// Empty: the trace is not sampled, or the task continues.
    fn spans(&self, task: &Task) -> Vec<OtlpSpan> {
        let context = task.ask.traceparent.as_deref().and_then(TraceContext::read);
        let Some(context) = context.filter(|context| context.is_reported(self.0.options.sample_percent))
        else {
            return Vec::new();
        };
        if !task.state.is_finished() || !self.0.reported.lock().is_new((task.place.id, task.updated_at)) {
            return Vec::new();
        }
        spans::of(task, &context).iter().map(|span| otlp::span(task, &context, span)).collect()
    }

    async fn send(&self, spans: Vec<OtlpSpan>) -> Result<(), String> {
        let Options { endpoint, protocol, resource, .. } = &self.0.options;
        let body = protocol.write(&otlp::request(self.0.engine.name(), resource, spans));
        let body = body.map_err(|error| error.to_string())?;
        let request = self.0.client.post(endpoint).header("content-type", protocol.content_type()).body(body);
        let answer = request.send().await.map_err(|error| error.without_url().to_string())?;
        let status = answer.status();
        if status.is_success() { Ok(()) } else { Err(format!("the collector answered {status}")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_once_and_so_many_are_remembered() {
        let mut reported = ReportedEnds::default();
        assert!(
            reported.is_new((7, Millis(1)))
                && !reported.is_new((7, Millis(1)))
                && reported.is_new((7, Millis(2)))
        );
        for id in 0..i64::try_from(REPORTED_MAX).unwrap() {
            reported.is_new((id + 100, Millis(1)));
        }
        assert_eq!((reported.ends.len(), reported.order.len()), (REPORTED_MAX, REPORTED_MAX));
        assert!(reported.is_new((7, Millis(1))), "forgotten by now");
    }
}
