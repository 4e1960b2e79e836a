//! The agendas of the databases as they were read last, and which services wait for them. Reads nothing.

use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::store::Agenda;
use std::time::Duration;
use tokio::{sync::Notify, time::Instant};

/// An older agenda says nothing: then each service reads for itself, as if there were no agendas.
const GOOD_FOR: Duration = Duration::from_secs(1);
/// A service also reads for itself this long after it last did, in its next run: for what it does besides, and for what no agenda shows.
const READS_ITSELF_AFTER: Duration = Duration::from_secs(4);

/// What a service reads the store for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    Settings,
    Access,
    Schedules,
    Workflows,
    Bulk,
    Leases,
    Labels,
}

impl Topic {
    pub(crate) const ALL: [Self; 7] = [
        Self::Settings,
        Self::Access,
        Self::Schedules,
        Self::Workflows,
        Self::Bulk,
        Self::Leases,
        Self::Labels,
    ];
}

#[derive(Debug, Default)]
pub(crate) struct Agendas {
    /// By part, with the instant before the read.
    read: Mutex<HashMap<usize, (Agenda, Instant)>>,
    /// When a service last read for itself.
    itself: Mutex<HashMap<Topic, Instant>>,
    due: [Notify; Topic::ALL.len()],
}

impl Agendas {
    pub(super) fn keep(&self, part: usize, agenda: Agenda, asked_at: Instant) {
        self.read.lock().insert(part, (agenda, asked_at));
    }

    pub(super) fn forget(&self, part: usize) {
        self.read.lock().remove(&part);
    }

    /// None: it is too old, or was never read.
    pub(super) fn of(&self, part: usize, now: Instant) -> Option<Agenda> {
        let read = self.read.lock();
        let (agenda, asked_at) = read.get(&part)?;
        (now.saturating_duration_since(*asked_at) <= GOOD_FOR).then_some(*agenda)
    }

    /// Whether the service reads for itself whatever the agendas say; it counts as done.
    pub(super) fn reads_itself(&self, topic: Topic, now: Instant) -> bool {
        let mut itself = self.itself.lock();
        let is_time =
            itself.get(&topic).is_none_or(|at| now.saturating_duration_since(*at) >= READS_ITSELF_AFTER);
        if is_time {
            itself.insert(topic, now);
        }
        is_time
    }

    /// The next run of the service reads for itself: something has changed here.
    pub(crate) fn distrust(&self, topic: Topic) {
        self.itself.lock().remove(&topic);
    }

    /// There is work, by the agenda that was just read.
    pub(super) fn call(&self, topic: Topic) {
        if let Some(due) = self.due.get(topic as usize) {
            due.notify_one();
        }
    }

    /// Waits until an agenda shows work.
    pub(crate) async fn called(&self, topic: Topic) {
        match self.due.get(topic as usize) {
            Some(due) => due.notified().await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_agenda_counts_as_none_and_a_service_reads_now_and_then() {
        let (agendas, now) = (Agendas::default(), Instant::now());
        let later = |ms| now + Duration::from_millis(ms);
        assert_eq!(agendas.of(0, now), None);
        agendas.keep(0, Agenda::default(), now);
        assert_eq!(agendas.of(0, later(1_000)), Some(Agenda::default()));
        assert_eq!(agendas.of(0, later(1_001)), None);
        assert_eq!(agendas.of(1, now), None);
        agendas.forget(0);
        assert_eq!(agendas.of(0, now), None);
        assert!(agendas.reads_itself(Topic::Bulk, now));
        assert!(!agendas.reads_itself(Topic::Bulk, later(3_999)));
        assert!(agendas.reads_itself(Topic::Labels, now));
        assert!(agendas.reads_itself(Topic::Bulk, later(4_000)));
        agendas.distrust(Topic::Bulk);
        assert!(agendas.reads_itself(Topic::Bulk, later(4_001)));
    }
}
