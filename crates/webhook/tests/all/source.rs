//! Tasks in memory, for a dispatcher without an engine.

use async_trait::async_trait;
use parking_lot::Mutex;
use punctual_domain::{
    name::{Name, QueueKey},
    settings::{Mode, QueueSettings, Webhook},
    time::Millis,
};
use punctual_protocol::{Json, LeasedTask, Outcome};
use punctual_webhook::{
    Dispatcher, HeldLease, LeaseState, LeaseTerms, RecordState, TaskSource, WebhookQueue,
};
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::{sync::Notify, time::timeout};

const HANG_LIMIT: Duration = Duration::from_secs(120);

#[derive(Debug, Default)]
pub(crate) struct Tasks {
    pub(crate) queues: Mutex<HashMap<String, Arc<QueueSettings>>>,
    waiting: Mutex<HashMap<String, Vec<LeasedTask>>>,
    pub(crate) outcomes: Mutex<Vec<Outcome>>,
    pub(crate) extended: Mutex<Vec<HeldLease>>,
    pub(crate) paused: Mutex<Vec<(String, String)>>,
    pub(crate) held_back: Mutex<Vec<(Arc<QueueKey>, String)>>,
    /// The largest number of tasks that a lease asked for, by queue.
    pub(crate) asked: Mutex<HashMap<String, usize>>,
    /// Records fail so often.
    pub(crate) failing_records: Mutex<u32>,
    pub(crate) changed: Notify,
    come: Notify,
}

fn key(queue: &str) -> QueueKey {
    QueueKey { namespace: Name::new("default").unwrap(), queue: Name::new(queue).unwrap() }
}

impl Tasks {
    pub(crate) fn set(&self, queue: &str, webhook: Webhook) {
        let settings = QueueSettings {
            mode: Some(Mode::Webhook),
            webhook: Some(Box::new(webhook)),
            ..Default::default()
        };
        self.queues.lock().insert(queue.to_owned(), Arc::new(settings));
    }

    pub(crate) fn add(&self, queue: &str, refs: &[&str]) {
        let task = |r#ref: &&str| LeasedTask {
            r#ref: (*r#ref).to_owned(),
            queue: queue.to_owned(),
            attempt: 1,
            token: "1-30000".to_owned(),
            payload: Some(Json::from_text("{\"n\":1}".to_owned()).unwrap()),
            ..LeasedTask::default()
        };
        self.waiting.lock().entry(queue.to_owned()).or_default().extend(refs.iter().map(task));
        self.come.notify_waiters();
    }

    pub(crate) fn outcome(&self, r#ref: &str) -> Option<Outcome> {
        self.outcomes.lock().iter().find(|outcome| outcome.r#ref == r#ref).cloned()
    }

    pub(crate) fn waiting(&self, queue: &str) -> usize {
        self.waiting.lock().get(queue).map_or(0, Vec::len)
    }

    /// Runs the dispatcher until the condition is met.
    pub(crate) async fn until(&self, what: &str, dispatcher: &Dispatcher, condition: impl Fn(&Self) -> bool) {
        let waiting = async {
            while !condition(self) {
                dispatcher.run_once();
                let _ = timeout(Duration::from_millis(20), self.changed.notified()).await;
            }
        };
        assert!(timeout(HANG_LIMIT, waiting).await.is_ok(), "{what}: {:?}", self.outcomes.lock());
    }
}

#[async_trait]
impl TaskSource for Tasks {
    fn now(&self) -> Millis {
        Millis(1_900_000_000_000)
    }

    fn webhook_queues(&self) -> Vec<WebhookQueue> {
        let queues = self.queues.lock();
        let one = |(queue, settings): (&String, &Arc<QueueSettings>)| WebhookQueue {
            queue: Arc::new(key(queue)),
            settings: Arc::clone(settings),
        };
        queues.iter().map(one).collect()
    }

    async fn lease(&self, queue: &Arc<QueueKey>, terms: LeaseTerms) -> Result<Vec<LeasedTask>, String> {
        let name = queue.queue.as_str().to_owned();
        {
            let mut asked = self.asked.lock();
            let most = asked.entry(name.clone()).or_default();
            *most = terms.max.max(*most);
        }
        loop {
            let come = self.come.notified();
            {
                let mut waiting = self.waiting.lock();
                let tasks = waiting.entry(name.clone()).or_default();
                if !tasks.is_empty() {
                    let count = tasks.len().min(terms.max);
                    return Ok(tasks.drain(..count).collect());
                }
            }
            let _ = timeout(Duration::from_millis(20), come).await;
        }
    }

    async fn extend(&self, leases: Vec<HeldLease>) -> Vec<LeaseState> {
        let states = vec![LeaseState::Held; leases.len()];
        self.extended.lock().extend(leases);
        self.changed.notify_one();
        states
    }

    async fn record(&self, _: &QueueKey, outcomes: Vec<Outcome>) -> Vec<RecordState> {
        let mut failing = self.failing_records.lock();
        if *failing > 0 {
            *failing -= 1;
            return vec![RecordState::Unknown("the store does not answer".to_owned()); outcomes.len()];
        }
        drop(failing);
        let done = vec![RecordState::Done; outcomes.len()];
        self.outcomes.lock().extend(outcomes);
        self.changed.notify_one();
        done
    }

    async fn pause(&self, queue: &QueueKey, reason: String) -> Result<(), String> {
        self.paused.lock().push((queue.queue.as_str().to_owned(), reason));
        Ok(())
    }

    fn report(&self, held_back: Vec<(Arc<QueueKey>, String)>) {
        *self.held_back.lock() = held_back;
    }
}
