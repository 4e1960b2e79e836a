//! Settings in the engine: keeps its copy current, and changes settings for callers. The store enforces a pause; the engine
//! only avoids vain attempts.

use crate::{answer::Error, core::Core, engine::Engine, pipeline::ahead, settings::LoadedSettings};
use punctual_contract::{
    Error as BackendError,
    settings::{SaveSetting, Saved, SettingChange, Settings, StoredSetting},
};
use punctual_domain::{
    name::QueueKey,
    settings::{Pause, QueueSettings, Scope, Setting},
    time::Millis,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// The interval of the checks for changed settings: every engine acts on a change within a second.
pub(crate) const PERIOD: Duration = Duration::from_millis(300);
/// Changes that lose their race to others, one after the other.
pub(crate) const TRIES: usize = 8;

/// Reads the settings if they changed. Returns the number of reads.
pub(crate) async fn run_once(core: &Arc<Core>) -> Result<usize, BackendError> {
    let revision = core.store.settings_revision().await?;
    core.settings.try_again();
    if core.settings.is_loaded() && core.settings.known().revision == revision {
        return Ok(0);
    }
    core.settings.replace(LoadedSettings::of(core.store.settings().await?));
    let known = core.settings.known();
    core.meters.set_budgets(known.queues.iter().map(|(queue, set)| (queue, set.lateness_budget_ms())));
    // Something may be allowed that was not.
    core.arrivals.wake_all();
    Ok(1)
}

/// An engine hands nothing over before it has read the settings.
pub(crate) async fn loaded(core: &Arc<Core>) -> Result<(), BackendError> {
    if !core.settings.is_loaded() {
        run_once(core).await?;
    }
    Ok(())
}

pub(crate) async fn save(core: &Arc<Core>, save: SaveSetting, now: Millis) -> Result<Saved, Error> {
    Ok(save_known(core, save, now).await?)
}

/// Saves a setting. Afterwards this engine knows it.
pub(crate) async fn save_known(
    core: &Arc<Core>,
    save: SaveSetting,
    now: Millis,
) -> Result<Saved, BackendError> {
    let saved = core.store.save_setting(save, now).await?;
    if let Err(error) = run_once(core).await {
        tracing::warn!(%error, "settings were saved and could not be read again; it will be repeated");
    }
    Ok(saved)
}

pub(crate) async fn current_setting(core: &Core, scope: &Scope) -> Result<Option<StoredSetting>, Error> {
    Ok(core.store.settings().await?.all.into_iter().find(|standing| standing.scope == *scope))
}

/// The setting after a change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stood {
    /// `None` if nothing is set.
    pub current: Option<StoredSetting>,
    /// The revision of the history line that this change wrote, or `None` if nothing changed, and nothing was
    /// written.
    pub written: Option<i64>,
}

/// The result of a conditional change of settings.
#[derive(Clone, Debug, PartialEq)]
pub enum Put {
    Done(Box<Stood>),
    /// The current revision, which is not the expected one; 0: nothing is set.
    Otherwise(i64),
}

/// The treatment of a queue's entry whose last setting is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WhenNothing {
    /// The entry is removed, as if nothing was ever set: its revision is 0.
    Forget,
    /// The entry keeps a growing revision. A caller that saw the queue paused can distinguish later states
    /// from earlier ones.
    Keep,
}

/// Changes the settings of a queue, also under concurrent changes. `change` returns whether to save, and is
/// not called if `fits` says that another revision was expected.
async fn change_queue(
    core: &Arc<Core>,
    queue: QueueKey,
    by: &str,
    (fits, when_nothing): (impl Fn(i64) -> bool, WhenNothing),
    change: impl Fn(&mut QueueSettings) -> bool,
) -> Result<Put, Error> {
    let scope = Scope::Queue(queue);
    for _ in 0..TRIES {
        let current = current_setting(core, &scope).await?;
        let expected = current.as_ref().map_or(0, |standing| standing.revision);
        if !fits(expected) {
            return Ok(Put::Otherwise(expected));
        }
        let mut settings = match current.as_ref().map(|standing| &standing.setting) {
            Some(Setting::Queue(settings)) => (**settings).clone(),
            _ => QueueSettings::default(),
        };
        if !change(&mut settings) {
            return Ok(Put::Done(Box::new(Stood { current, written: None })));
        }
        let is_nothing = settings == QueueSettings::default() && when_nothing == WhenNothing::Forget;
        let setting = (!is_nothing).then(|| Setting::Queue(Box::new(settings)));
        let (by, now) = (by.to_owned(), core.now());
        let asked = SaveSetting {
            scope: scope.clone(),
            setting: setting.clone(),
            expected: Some(expected),
            by: by.clone(),
        };
        if let Saved::Done(revision) = save(core, asked, now).await? {
            // Built from the committed values: a read that fails now must not claim that nothing was done.
            let scope = scope.clone();
            let current =
                |setting| StoredSetting { scope, setting, revision, updated_at: now, updated_by: by };
            let written = (revision > 0).then_some(revision);
            return Ok(Put::Done(Box::new(Stood { current: setting.map(current), written })));
        }
    }
    Err(Error::Contended)
}

/// A change without a condition has no other result.
fn done(put: Put) -> Stood {
    match put {
        Put::Done(stood) => *stood,
        Put::Otherwise(_) => Stood::default(),
    }
}

impl Engine {
    /// All that is set, in its current state in the store.
    ///
    /// # Errors
    /// A failing store.
    pub async fn settings(&self) -> Result<Settings, Error> {
        Ok(self.core.store.settings().await?)
    }

    /// Labels of a queue that are not wholly indexed yet, with how many percent are.
    ///
    /// # Errors
    /// A failing store.
    pub async fn indexing(&self, queue: &QueueKey) -> Result<BTreeMap<String, u8>, Error> {
        let mut least = BTreeMap::new();
        for label_index in self.core.store.label_indexes().await? {
            if label_index.queue == *queue && label_index.below_id.is_some() {
                let percent = label_index.percent();
                let current: &mut u8 = least.entry(label_index.label).or_insert(percent);
                *current = percent.min(*current);
            }
        }
        Ok(least)
    }

    /// The setting of a scope, or `None` if nothing is set.
    ///
    /// # Errors
    /// A failing store.
    pub async fn setting(&self, scope: &Scope) -> Result<Option<StoredSetting>, Error> {
        current_setting(&self.core, scope).await
    }

    /// Replaces a queue's settings, if its revision fits. Its pause remains, unless `pause` changes it: a
    /// reason to pause, or None to resume.
    ///
    /// # Errors
    /// A failing store; the error states whether the settings may have been saved nevertheless. Or
    /// [`Error::Contended`].
    pub async fn put_queue(
        &self,
        queue: QueueKey,
        settings: QueueSettings,
        pause: Option<Option<Pause>>,
        by: &str,
        fits: impl Fn(i64) -> bool + Send + Sync + 'static,
    ) -> Result<Put, Error> {
        let (core, by) = (Arc::clone(&self.core), by.to_owned());
        let pauses = matches!(pause, Some(Some(_)));
        let change = move |queue_settings: &mut QueueSettings| {
            let current = queue_settings.pause.take();
            let wanted = match &pause {
                None => current,
                Some(None) => None,
                Some(Some(new)) => current.or_else(|| Some(new.clone())),
            };
            *queue_settings = QueueSettings { pause: wanted, ..settings.clone() };
            true
        };
        self.run(async move {
            let put = change_queue(&core, queue, &by, (fits, WhenNothing::Forget), change).await;
            if pauses {
                ahead::until_none_is_good(&core).await;
            }
            put
        })
        .await
    }

    /// True if the queue's tasks are sent to the bus, as far as this engine knows; at most a second behind the store.
    #[must_use]
    pub fn is_pushed(&self, queue: &QueueKey) -> bool {
        self.core.pushes(queue)
    }

    /// The queue's settings, as far as this engine knows; at most a second behind the store.
    #[must_use]
    pub fn known_settings(&self, queue: &QueueKey) -> Arc<QueueSettings> {
        self.core.settings.queue(queue)
    }

    /// Sets or removes the setting of a scope. This engine applies it before this returns, the others within
    /// a second.
    ///
    /// # Errors
    /// A failing store; the error states whether it may have been saved nevertheless.
    pub async fn save_setting(&self, asked: SaveSetting) -> Result<Saved, Error> {
        let core = Arc::clone(&self.core);
        self.run(async move { save(&core, asked, core.now()).await }).await
    }

    /// The changes of a scope, the newest first, older than a revision.
    ///
    /// # Errors
    /// A failing store.
    pub async fn setting_changes(
        &self,
        scope: &Scope,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<SettingChange>, Error> {
        Ok(self.core.store.setting_changes(scope, before, limit).await?)
    }

    /// Pauses a queue. After this returns, no task of the queue starts at any engine. The first pause's author and
    /// reason remain.
    ///
    /// # Errors
    /// A failing store: then the queue may be paused, and engines apply that by themselves. Or
    /// [`Error::Contended`].
    pub async fn pause(&self, queue: QueueKey, reason: Option<String>, by: &str) -> Result<Stood, Error> {
        let (core, by) = (Arc::clone(&self.core), by.to_owned());
        let pause = Pause { at: core.now(), by: by.clone(), reason };
        let change = move |settings: &mut QueueSettings| {
            settings.pause.get_or_insert_with(|| pause.clone());
            // Saved again even if already paused: the engine that paused it may have died before every
            // database knew.
            true
        };
        self.run(async move {
            let always = (|_| true, WhenNothing::Forget);
            let paused = done(change_queue(&core, queue, &by, always, change).await?);
            ahead::until_none_is_good(&core).await;
            Ok(paused)
        })
        .await
    }

    /// Waiting tasks continue, in their order.
    ///
    /// # Errors
    /// Fails like [`Engine::pause`].
    pub async fn resume(&self, queue: QueueKey, by: &str) -> Result<Stood, Error> {
        let (core, by) = (Arc::clone(&self.core), by.to_owned());
        let change = |settings: &mut QueueSettings| settings.pause.take().is_some();
        let always = (|_| true, WhenNothing::Keep);
        self.run(async move { Ok(done(change_queue(&core, queue, &by, always, change).await?)) }).await
    }
}
