//! Settings of queues, namespaces and the installation: durable, numbered, with the history of every change.
//! The store itself enforces a pause: `Store::dispatch` refuses tasks of paused queues.

use crate::error::Error;
use async_trait::async_trait;
use punctual_domain::{
    settings::{Scope, Setting},
    time::Millis,
};

/// Promises:
/// - **Numbered.** Each change of any setting has a revision, higher than all before it.
/// - **Recorded.** Each change leaves a line of history in its own transaction.
/// - **A pause holds.** After a save with a pause was answered, no `dispatch` that ends later starts a task
///   of that queue, whichever engine calls and whatever it knows, until a save without the pause.
/// - **No half.** A save that failed with `Maybe` may be applied in part, and is completed by itself.
#[async_trait]
pub trait SettingStore: Send + Sync {
    /// The number of the last change; 0: nothing was ever set. Cheap.
    async fn settings_revision(&self) -> Result<i64, Error>;

    /// All that is set, as of one revision.
    async fn settings(&self) -> Result<Settings, Error>;

    async fn save_setting(&self, save: SaveSetting, now: Millis) -> Result<Saved, Error>;

    /// Returns the changes of one scope that are older than a revision, the newest first, at most `limit`.
    async fn setting_changes(
        &self,
        scope: &Scope,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<SettingChange>, Error>;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    pub revision: i64,
    /// Sorted by scope names.
    pub all: Vec<StoredSetting>,
}

/// The setting of a scope.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredSetting {
    pub scope: Scope,
    pub setting: Setting,
    /// The revision of the change that stored the setting.
    pub revision: i64,
    pub updated_at: Millis,
    pub updated_by: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SaveSetting {
    pub scope: Scope,
    /// `None` removes the setting. The removal of a missing setting does nothing, and leaves no line.
    pub setting: Option<Setting>,
    /// Only if this is the current revision; 0: only if nothing is set.
    pub expected: Option<i64>,
    pub by: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    /// The new revision; 0: there was nothing to remove.
    Done(i64),
    /// The current revision is another; 0: nothing is set.
    Conflict(i64),
}

#[derive(Clone, Debug, PartialEq)]
pub struct SettingChange {
    pub revision: i64,
    /// `None` if the change removed the setting.
    pub setting: Option<Setting>,
    pub changed_at: Millis,
    pub changed_by: String,
}
