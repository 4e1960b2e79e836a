//! The faults of this engine's inboxes, for alerts. Moves no row.

use crate::alerts::state::AlertKind;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// The faults by inbox: its delay, and refused rows.
type Troubles = BTreeMap<String, (Option<String>, Option<String>)>;

#[derive(Debug, Default)]
pub(crate) struct Inboxes(Mutex<Troubles>);

impl Inboxes {
    /// Replaces the earlier report.
    pub(crate) fn report(&self, name: &str, behind: Option<String>, refused: Option<String>) {
        self.0.lock().insert(name.to_owned(), (behind, refused));
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn troubles_of_all_inboxes_are_one_alert_of_each_kind() {
        let inboxes = Inboxes::default();
        assert!(inboxes.alerts().is_empty());
        for (name, trouble) in
            [("a", (Some("a is behind"), None)), ("b", (Some("b is behind"), Some("b has refused")))]
        {
            inboxes.report(name, trouble.0.map(str::to_owned), trouble.1.map(str::to_owned));
        }
        let behind = (AlertKind::InboxBehind, "a is behind; b is behind".to_owned());
        assert_eq!(inboxes.alerts(), [behind, (AlertKind::InboxRefused, "b has refused".to_owned())]);
    }
}
