//! What is wrong with the inboxes of this engine, for alerts; and how long a task of one is known by its key. Moves no row.

use crate::{alerts::state::AlertKind, engine::Engine};
use parking_lot::Mutex;
use punctual_domain::name::QueueKey;
use std::collections::BTreeMap;

/// By inbox: that it is behind, and that rows were refused.
type Troubles = BTreeMap<String, (Option<String>, Option<String>)>;

#[derive(Debug, Default)]
pub(crate) struct Inboxes(Mutex<Troubles>);

impl Inboxes {
    /// One alert of a kind for all inboxes.
    pub(crate) fn alerts(&self) -> Vec<(AlertKind, String)> {
        let troubles = self.0.lock();
        let behind: Vec<&str> = troubles.values().filter_map(|pair| pair.0.as_deref()).collect();
        let refused: Vec<&str> = troubles.values().filter_map(|pair| pair.1.as_deref()).collect();
        let all = [(AlertKind::InboxBehind, behind), (AlertKind::InboxRefused, refused)];
        let alerts = all.into_iter().filter(|(_, texts)| !texts.is_empty());
        alerts.map(|(kind, texts)| (kind, texts.join("; "))).collect()
    }
}

impl Engine {
    /// Sentences for alerts about one inbox, in place of those before.
    pub fn report_inbox(&self, name: &str, behind: Option<String>, refused: Option<String>) {
        self.core.health.inboxes.0.lock().insert(name.to_owned(), (behind, refused));
    }

    /// How long a task of this queue is known by its key at least, whatever becomes of it (ms).
    #[must_use]
    pub fn known_for_ms(&self, queue: &QueueKey) -> i64 {
        let keep = self.core.keep(Some(queue));
        keep.succeeded_ms.min(keep.cancelled_ms).min(keep.dead_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn troubles_of_all_inboxes_are_one_alert_of_each_kind() {
        let inboxes = Inboxes::default();
        assert!(inboxes.alerts().is_empty());
        for (name, trouble) in [("a", (Some("a is behind"), None)), ("b", (Some("b is behind"), Some("b has refused")))] {
            let texts = (trouble.0.map(str::to_owned), trouble.1.map(str::to_owned));
            inboxes.0.lock().insert(name.to_owned(), texts);
        }
        let behind = (AlertKind::InboxBehind, "a is behind; b is behind".to_owned());
        assert_eq!(inboxes.alerts(), [behind, (AlertKind::InboxRefused, "b has refused".to_owned())]);
    }
}
