//! The webhook queues of this engine: which they are, and the faults of their receivers, for alerts. Delivers nothing.

use crate::{alerts::state::AlertKind, settings::LoadedSettings};
use parking_lot::Mutex;
use punctual_domain::{name::QueueKey, settings::QueueSettings, webhook::PAUSED_BY_RECEIVER};
use std::sync::Arc;

/// The queues to which nothing is delivered now, each with the reason.
#[derive(Debug, Default)]
pub(crate) struct HeldBack(Mutex<Vec<(Arc<QueueKey>, String)>>);

impl HeldBack {
    /// Replaces the earlier report.
    pub(crate) fn report(&self, held_back: Vec<(Arc<QueueKey>, String)>) {
        *self.0.lock() = held_back;
    }

    /// Why nothing is delivered from a queue now.
    pub(crate) fn reason(&self, queue: &QueueKey) -> Option<String> {
        self.0.lock().iter().find(|pair| *pair.0 == *queue).map(|pair| pair.1.clone())
    }

    /// The alerts about receivers: those that do not answer, and those that want no more requests.
    pub(crate) fn alerts(&self, known: &LoadedSettings) -> Vec<(AlertKind, QueueKey, String)> {
        let failing = self.0.lock().clone().into_iter();
        let failing = failing.map(|(queue, text)| (AlertKind::WebhookFailing, (*queue).clone(), text));
        let gone = queues(known).filter_map(|(queue, settings)| {
            let pause = settings.pause.as_ref().filter(|pause| pause.by == PAUSED_BY_RECEIVER)?;
            let reason = pause.reason.as_deref().unwrap_or("its receiver answered 410");
            Some((AlertKind::WebhookGone, queue.clone(), format!("the queue is paused: {reason}")))
        });
        failing.chain(gone).collect()
    }
}

/// The queues whose tasks are delivered.
pub(crate) fn queues(known: &LoadedSettings) -> impl Iterator<Item = (&QueueKey, &Arc<QueueSettings>)> {
    known.queues.iter().filter(|(_, settings)| settings.delivered_to().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_domain::{
        name::Name,
        settings::{Mode, Pause, Webhook},
        time::Millis,
    };

    #[test]
    fn receivers_that_fail_and_receivers_that_are_gone_are_alerts_of_their_queues() {
        let queue = |name: &str| QueueKey {
            namespace: Name::new("default").unwrap(),
            queue: Name::new(name).unwrap(),
        };
        let settings = |by: &str| {
            let pause = Some(Pause { at: Millis(1), by: by.to_owned(), reason: None });
            let webhook = Some(Box::new(Webhook::default()));
            Arc::new(QueueSettings { mode: Some(Mode::Webhook), webhook, pause, ..QueueSettings::default() })
        };
        let mut known = LoadedSettings::default();
        known.queues.insert(queue("gone"), settings(PAUSED_BY_RECEIVER));
        known.queues.insert(queue("paused"), settings("ann"));
        let held_back = HeldBack::default();
        held_back.report(vec![(Arc::new(queue("a")), "https://a: refused".to_owned())]);
        assert_eq!(held_back.reason(&queue("a")).as_deref(), Some("https://a: refused"));
        assert_eq!(held_back.reason(&queue("gone")), None);
        let alerts = held_back.alerts(&known);
        let named: Vec<_> =
            alerts.iter().map(|(kind, queue, _)| (kind.name(), queue.queue.as_str())).collect();
        assert_eq!(named, [("webhook_failing", "a"), ("webhook_gone", "gone")]);
    }
}
