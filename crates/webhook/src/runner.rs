//! The dispatcher: starts deliveries for each webhook queue, follows their settings, and ends them when the engine stops.

mod held;
mod shared;

mod reporter;

mod queue;

use crate::{
    numbers::DeliveryNumbers,
    source::{TaskSource, WebhookQueue},
};
use parking_lot::Mutex;
use punctual_domain::{name::QueueKey, settings::QueueSettings};
use queue::QueueDeliveries;
use shared::{Shared, host_of};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;

/// How often the settings of queues are compared with what is delivered.
pub const PERIOD: Duration = Duration::from_millis(300);
/// A stopping engine waits this long for answers.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// And then this long for the record of their outcomes.
const RECORDS_WITHIN: Duration = Duration::from_secs(3);

/// Cheap to clone; all clones are the same dispatcher.
#[derive(Clone, Debug)]
pub struct Dispatcher {
    shared: Arc<Shared>,
    queues: Arc<Mutex<HashMap<Arc<QueueKey>, RunningQueue>>>,
}

/// The deliveries of one queue.
#[derive(Debug)]
struct RunningQueue {
    settings: watch::Sender<Arc<QueueSettings>>,
    /// The queue is no webhook queue any more.
    retired: CancellationToken,
    deliveries: Arc<QueueDeliveries>,
}

impl Dispatcher {
    #[must_use]
    pub fn new(source: Arc<dyn TaskSource>) -> Self {
        Self { shared: Arc::new(Shared::over(source)), queues: Arc::default() }
    }

    /// Starts and ends the deliveries of queues, as they are set now. Returns the number of webhook queues.
    pub fn run_once(&self) -> usize {
        if self.shared.stopping.is_cancelled() {
            return 0;
        }
        let wanted = self.shared.source.webhook_queues();
        let mut queues = self.queues.lock();
        let names: HashSet<&Arc<QueueKey>> = wanted.iter().map(|wanted| &wanted.queue).collect();
        queues.retain(|queue, running| {
            let is_wanted = names.contains(queue) && !running.deliveries.has_ended();
            if !is_wanted {
                running.retired.cancel();
            }
            is_wanted
        });
        for WebhookQueue { queue, settings } in &wanted {
            match queues.get(queue) {
                Some(running) => {
                    running.settings.send_if_modified(|current| {
                        let is_new = **current != **settings;
                        current.clone_from(settings);
                        is_new
                    });
                }
                None => {
                    queues.insert(Arc::clone(queue), begin(&self.shared, queue, settings));
                }
            }
        }
        drop(queues);
        self.report(&wanted);
        wanted.len()
    }

    /// Ends all deliveries: waits for answers, and then postpones what has none.
    pub async fn stop(&self) {
        self.shared.stopping.cancel();
        self.shared.work.close();
        if timeout(ANSWERS_WITHIN, self.shared.work.wait()).await.is_err() {
            self.shared.cut_off.cancel();
            if timeout(RECORDS_WITHIN, self.shared.work.wait()).await.is_err() {
                tracing::warn!(
                    in_flight = self.in_flight(),
                    "outcomes of webhooks could not be recorded; their leases end, and the tasks are delivered again"
                );
            }
        }
    }

    #[must_use]
    pub fn numbers(&self) -> DeliveryNumbers {
        let mut numbers = self.shared.numbers.read();
        numbers.in_flight = self.in_flight();
        numbers.hosts_held_back = self.shared.breakers.held_back();
        numbers
    }

    fn in_flight(&self) -> usize {
        self.queues.lock().values().map(|running| running.deliveries.in_flight()).sum()
    }

    /// Reports the queues whose hosts do not answer, and forgets hosts of no queue.
    fn report(&self, wanted: &[WebhookQueue]) {
        let hosts: Vec<(Arc<QueueKey>, String)> = wanted
            .iter()
            .filter_map(|wanted| Some((Arc::clone(&wanted.queue), host_of(wanted.settings.delivered_to()?))))
            .collect();
        self.shared.breakers.retain(&hosts.iter().map(|pair| pair.1.clone()).collect());
        let trouble =
            |(queue, host): (Arc<QueueKey>, String)| Some((queue, self.shared.breakers.trouble(&host)?));
        self.shared.source.report(hosts.into_iter().filter_map(trouble).collect());
    }
}

fn begin(shared: &Arc<Shared>, queue: &Arc<QueueKey>, settings: &Arc<QueueSettings>) -> RunningQueue {
    let (sender, receiver) = watch::channel(Arc::clone(settings));
    let retired = CancellationToken::new();
    let deliveries = QueueDeliveries::begin(shared, queue, receiver, retired.clone());
    RunningQueue { settings: sender, retired, deliveries }
}
