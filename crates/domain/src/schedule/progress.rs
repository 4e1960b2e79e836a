//! How far a schedule has come. Kept as JSON beside the document: a field is never renamed.

use crate::time::Millis;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// What becomes of every instant up to here is decided.
    pub decided_until: Millis,
    /// Runs that were made, by whatever cause.
    #[serde(default)]
    pub runs: u64,
    /// The latest run that had come when this was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run_at: Option<Millis>,
    /// Runs that were made, and whose instants had not come then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub made_ahead: Vec<Millis>,
    /// The run that has to be over before the next may begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastRun>,
    /// Instants whose run waits for the end of the one before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buffered: Vec<Millis>,
    /// It was paused, and what it missed meanwhile is not decided yet.
    #[serde(default)]
    pub was_paused: bool,
    /// It was changed, and runs that were made before have to be taken back first.
    #[serde(default)]
    pub takes_back: bool,
    /// The longest jitter of the documents that made those.
    #[serde(default)]
    pub jitter_ms: i64,
}

/// By which a run is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastRun {
    pub at: Millis,
    /// Of its task: the revision of the document that it was made by.
    pub version: i64,
    pub planned_at: Millis,
}

impl Progress {
    /// Of a schedule that begins now.
    #[must_use]
    pub fn beginning(now: Millis) -> Self {
        Self { decided_until: now, ..Self::default() }
    }

    /// The latest run that has come.
    #[must_use]
    pub fn last_run(&self, now: Millis) -> Option<Millis> {
        self.made_ahead.iter().copied().filter(|it| *it <= now).max().max(self.last_run_at)
    }

    /// What was made ahead and has come is the last run.
    pub(crate) fn look(&mut self, now: Millis) {
        self.last_run_at = self.last_run(now);
        self.made_ahead.retain(|it| *it > now);
    }

    pub(crate) fn made(&mut self, at: Millis, now: Millis) {
        self.runs += 1;
        self.made_ahead.push(at);
        self.look(now);
    }

    /// What was made ahead is taken back, but for what has come, or fired, up to an instant.
    pub fn taken_back(&mut self, but_until: Millis) {
        self.look(but_until);
        self.made_ahead.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_run_is_the_latest_that_has_come_however_many_are_made_ahead() {
        let mut progress = Progress::beginning(Millis(0));
        let last = |it: &Progress, now| it.last_run(Millis(now)).map(|it| it.0);
        for at in [60, 120] {
            progress.made(Millis(at), Millis(10));
        }
        assert_eq!(
            (last(&progress, 59), last(&progress, 60), last(&progress, 500)),
            (None, Some(60), Some(120))
        );
        progress.made(Millis(180), Millis(70));
        assert_eq!((progress.last_run_at, progress.made_ahead.len()), (Some(Millis(60)), 2));
        assert_eq!(last(&progress, 130), Some(120));
        let stored: Progress = serde_json::from_str(&serde_json::to_string(&progress).unwrap()).unwrap();
        assert_eq!(stored, progress);
        let mut fired = progress.clone();
        fired.taken_back(Millis(120));
        progress.taken_back(Millis(119));
        assert_eq!((last(&fired, 500), last(&progress, 500), progress.runs), (Some(120), Some(60), 3));
    }
}
