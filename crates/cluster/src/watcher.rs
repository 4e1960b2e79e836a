//! Watches its own engine, and the heartbeats of the others: `run_once` notices changes, stores them, stores
//! the counts, and, at the leading engine, deletes old data. What cannot be stored waits in a short list.
//! Bounded, and repeatable at any time; nothing depends on it.

use crate::{
    alerts::ElsewhereCache,
    counts::{ReportedCounts, Sampling, Totals},
    due::DueCache,
    ledger::LedgerCache,
    notice::{self, ClusterSnapshot, HotSet, Silent, TakenOver},
    options::Options,
    queues::QueueRatesCache,
    views::{DatabaseCache, HotCache},
};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use punctual_contract::{
    ClusterStore, Error,
    cluster::{Event, EventQuery, Sample, SignOfLife},
    store::Applied,
};
use punctual_domain::{event::EventKind, place::Partition, time::Millis};
use punctual_engine::Engine;
use serde_json::json;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};
use tokio::time::timeout;

/// Events that wait to be stored; the oldest are dropped first, and the log has them.
const WAITING_MAX: usize = 1_000;
/// The pause between two reads of the owners, for the next takeover; and the number of reads that follow a change
/// here.
const OWNERS_EVERY_MS: i64 = 10_000;
const OWNERS_LOOKS: u32 = 3;
const FORGET_EVERY_MS: i64 = 60_000;
/// The maximum number of events that are deleted at one time.
const FORGET_MAX: usize = 1_000;
/// The retention of samples: the last hour, and one more, because clocks differ.
const KEEP_SAMPLES_MS: i64 = 2 * 3_600_000;
/// An engine that stops does not wait longer to say so.
const FAREWELL_WITHIN: Duration = Duration::from_secs(1);

/// Cheap to clone; all clones are the same watcher.
#[derive(Clone, Debug)]
pub struct Watcher {
    pub(crate) inner: Arc<WatcherCore>,
}

#[derive(Debug)]
pub(crate) struct WatcherCore {
    pub(crate) engine: Engine,
    pub(crate) store: Arc<dyn ClusterStore>,
    pub(crate) options: Options,
    state: Mutex<WatcherState>,
    pub(crate) due: DueCache,
    pub(crate) databases: DatabaseCache,
    pub(crate) hot: HotCache,
    pub(crate) elsewhere: ElsewhereCache,
    pub(crate) queue_rates: QueueRatesCache,
    pub(crate) ledger: LedgerCache,
}

#[derive(Debug)]
struct WatcherState {
    /// `None` if there was no check so far.
    seen: Option<ClusterSnapshot>,
    taken: TakenOver,
    owners: BTreeMap<Partition, String>,
    owners_at: Option<Millis>,
    owners_looks: u32,
    silent: Silent,
    /// The heartbeats as of the last check.
    signs: Vec<SignOfLife>,
    waiting: VecDeque<WaitingEvent>,
    sampling: Sampling,
    forgot_at: Option<Millis>,
}

#[derive(Clone, Debug)]
struct WaitingEvent {
    event: Event,
    is_logged: bool,
}

impl Watcher {
    #[must_use]
    pub fn new(engine: Engine, store: Arc<dyn ClusterStore>, options: Options) -> Self {
        let state = WatcherState {
            seen: None,
            taken: TakenOver::default(),
            owners: BTreeMap::new(),
            owners_at: None,
            owners_looks: 0,
            silent: Silent::default(),
            signs: Vec::new(),
            waiting: VecDeque::new(),
            sampling: Sampling::new(engine.now()),
            forgot_at: None,
        };
        let (state, due, databases) = (Mutex::new(state), DueCache::default(), DatabaseCache::default());
        let (elsewhere, queue_rates) = (ElsewhereCache::default(), QueueRatesCache::default());
        let (hot, ledger) = (HotCache::default(), LedgerCache::default());
        let inner = WatcherCore {
            engine,
            store,
            options,
            state,
            due,
            databases,
            hot,
            elsewhere,
            queue_rates,
            ledger,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Returns the number of stored events.
    ///
    /// # Errors
    /// A failing store; events that could not be stored are tried again.
    pub fn run_once(&self, now: Millis) -> BoxFuture<'_, Result<usize, Error>> {
        Box::pin(async move {
            let inner = &self.inner;
            inner.notice(now);
            let signs = inner.look_at_signs(now).await;
            let owners = inner.remember_owners(now).await;
            let written = inner.write().await;
            let reported = inner.report(now).await;
            let forgotten = inner.forget(now).await;
            signs.and(owners).and(reported).and(forgotten)?;
            written
        })
    }

    /// The engine is about to stop: stored immediately, or not at all.
    pub fn farewell(&self, now: Millis) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let me = self.inner.engine.name();
            let text = format!("{} stops", self.inner.called());
            self.inner.push(notice::own(me, now, EventKind::EngineStopped, text, json!({})));
            let written = async {
                let events = self.inner.write().await;
                events.and(self.inner.report(now).await.map(|()| 0))
            };
            if !matches!(timeout(FAREWELL_WITHIN, written).await, Ok(Ok(_))) {
                tracing::debug!(
                    "that this engine stops could not be written; the others see it all the same"
                );
            }
        })
    }

    /// Events, the newest first.
    ///
    /// # Errors
    /// A failing store.
    pub async fn events(&self, query: EventQuery) -> Result<Vec<(i64, Event)>, Error> {
        self.inner.store.events(query).await
    }

    /// Engines that recently became silent and are not back: their names, and for how long (ms), as of the last
    /// check.
    #[must_use]
    pub fn lost(&self) -> Vec<(String, i64)> {
        let most = self.inner.options.alert_lost_ms;
        let state = self.inner.state.lock();
        let lost = state.signs.iter().filter(|sign| sign.silent_ms > 0 && sign.silent_ms < most);
        lost.map(|sign| (sign.engine.clone(), sign.silent_ms)).collect()
    }
}

impl WatcherCore {
    pub(crate) fn signs(&self) -> Vec<SignOfLife> {
        self.state.lock().signs.clone()
    }

    /// An event that this engine itself knows: it is logged immediately.
    fn push(&self, event: Event) {
        log(&event);
        self.wait(WaitingEvent { event, is_logged: true });
    }

    fn wait(&self, waiting: WaitingEvent) {
        let mut state = self.state.lock();
        state.waiting.push_back(waiting);
        if state.waiting.len() > WAITING_MAX {
            state.waiting.pop_front();
            tracing::error!("events cannot be written, and the oldest of them are in the log only");
        }
    }

    fn look(&self) -> ClusterSnapshot {
        let engine = &self.engine;
        let hot = match () {
            () if engine.hot_is_another_clusters() => HotSet::OfAnother,
            () if engine.hot_is_away() => HotSet::Away,
            () => HotSet::Answers,
        };
        let held = engine.tenures().into_iter().map(|tenure| tenure.partition).collect();
        ClusterSnapshot { hot, databases_away: engine.databases_away(), held }
    }

    /// The name in messages. An engine that is alone has no configured name.
    fn called(&self) -> String {
        match self.engine.is_shared() {
            true => format!("engine {}", self.engine.name()),
            false => "the engine".to_owned(),
        }
    }

    fn notice(&self, now: Millis) {
        let (me, after) = (self.engine.name(), self.look());
        let mut events = Vec::new();
        {
            let mut state = self.state.lock();
            let before = state.seen.replace(after.clone());
            if before.is_none() {
                let (text, details) = (format!("{} has started", self.called()), version());
                events.push(notice::own(me, now, EventKind::EngineStarted, text, details));
            }
            // The partitions that a lone engine has from the start had no owner before.
            let before = before.unwrap_or_else(|| match self.engine.is_shared() {
                true => ClusterSnapshot::default(),
                false => ClusterSnapshot { held: after.held.clone(), ..ClusterSnapshot::default() },
            });
            events.extend(notice::back_ends(me, now, &before, &after));
            if before.held != after.held {
                state.owners_looks = OWNERS_LOOKS;
            }
            let WatcherState { taken, owners, .. } = &mut *state;
            events.extend(taken.look(me, now, (&before, &after), owners));
        }
        events.into_iter().for_each(|event| self.push(event));
    }

    async fn look_at_signs(&self, now: Millis) -> Result<(), Error> {
        if !self.engine.is_shared() {
            return Ok(());
        }
        let signs = self.store.signs_of_life().await?;
        let events = {
            let mut state = self.state.lock();
            let events = state.silent.look(now, &signs);
            state.signs = signs;
            events
        };
        events.into_iter().for_each(|event| self.wait(WaitingEvent { event, is_logged: false }));
        Ok(())
    }

    /// Reads the owners, so that the next takeover can name the previous one: never during a takeover.
    async fn remember_owners(&self, now: Millis) -> Result<(), Error> {
        let is_due = {
            let mut state = self.state.lock();
            let is_old = |at: Millis| now.since(at).abs() >= OWNERS_EVERY_MS;
            let is_asked = state.owners_looks > 0 || state.owners_at.is_none_or(is_old);
            let is_due = is_asked && state.taken.is_quiet();
            state.owners_looks = state.owners_looks.saturating_sub(u32::from(is_due));
            is_due
        };
        if !is_due || !self.engine.is_shared() {
            return Ok(());
        }
        let owners =
            self.engine.owners().await.map_err(|error| Error::did_not_happen("read owners", error))?;
        let mut state = self.state.lock();
        state.owners_at = Some(now);
        state.owners = owners.into_iter().map(|owner| (owner.tenure.partition, owner.engine)).collect();
        Ok(())
    }

    /// Stores waiting events in order. If another engine may have stored the same event, the first one logs
    /// it.
    async fn write(&self) -> Result<usize, Error> {
        let mut written = 0;
        loop {
            let next = self.state.lock().waiting.pop_front();
            let Some(next) = next else { return Ok(written) };
            match self.store.append_event(next.event.clone()).await {
                Ok(applied) => {
                    if applied == Applied::Moved && !next.is_logged {
                        log(&next.event);
                    }
                    written += usize::from(applied == Applied::Moved);
                }
                Err(error) => {
                    if !next.is_logged {
                        log(&next.event);
                    }
                    self.state.lock().waiting.push_front(WaitingEvent { is_logged: true, ..next });
                    return Err(error);
                }
            }
        }
    }

    async fn report(&self, now: Millis) -> Result<(), Error> {
        let totals = || Totals::of(self.engine.meters());
        let reported = self.state.lock().sampling.next(now, self.options.sample_every_ms, totals);
        let Some((step_at, reported, of_queues)) = reported else { return Ok(()) };
        let reported = ReportedCounts { alerts: self.own_alerts().await, ..reported };
        let kept = self.keep(step_at, &reported).await;
        kept.and(self.keep_queues(step_at, &of_queues).await)
    }

    async fn keep(&self, step_at: Millis, reported: &ReportedCounts) -> Result<(), Error> {
        let body =
            serde_json::to_string(reported).map_err(|error| Error::did_not_happen("keep a sample", error))?;
        self.store.save_sample(Sample { step_at, engine: self.engine.name().to_owned(), body }).await
    }

    /// One engine does it for all.
    async fn forget(&self, now: Millis) -> Result<(), Error> {
        let forgot_at = self.state.lock().forgot_at;
        let is_young = |at: Millis| now.since(at).abs() < FORGET_EVERY_MS;
        if !self.engine.leads() || forgot_at.is_some_and(is_young) {
            return Ok(());
        }
        let before = now.plus(-self.options.keep_events_ms);
        let forgotten = self.store.trim_events(before, self.options.events_max, FORGET_MAX).await?;
        self.store.trim_samples(now.plus(-KEEP_SAMPLES_MS)).await?;
        if forgotten < FORGET_MAX {
            self.state.lock().forgot_at = Some(now);
        }
        Ok(())
    }
}

fn version() -> serde_json::Value {
    json!({ "version": env!("CARGO_PKG_VERSION") })
}

/// One line.
fn log(event: &Event) {
    let (kind, engine) = (event.kind.word(), event.engine.as_deref().unwrap_or_default());
    if event.kind.is_trouble() {
        tracing::warn!(kind, engine, what = event.text, "event of the cluster");
    } else {
        tracing::info!(kind, engine, what = event.text, "event of the cluster");
    }
}
