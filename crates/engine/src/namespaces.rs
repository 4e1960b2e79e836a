//! Changes and deletes namespaces, with everything in them. A deletion is committed with the namespace's settings, and every
//! engine knows it within a second; from then on no engine accepts new tasks for it. The service `deletion` does the work.

use crate::{
    answer::Error,
    caps::state::Closed,
    control::{self, Stood, TRIES},
    core::Core,
    engine::Engine,
    settings::LoadedSettings,
};
use punctual_contract::settings::{SaveSetting, Saved, StoredSetting};
use punctual_domain::{
    name::Name,
    settings::{Deletion, Scope, ScopeSettings, Setting},
};
use std::sync::Arc;

/// The result of creating or changing a namespace.
#[derive(Clone, Debug, PartialEq)]
pub enum NamespacePut {
    Done(StoredSetting),
    /// The current revision, which is not the expected one; 0: nothing is set.
    Otherwise(i64),
    Deleting,
}

pub(crate) fn closed(core: &Core, known: &LoadedSettings, namespace: &Name) -> Option<Closed> {
    if !core.settings.is_loaded() {
        // Unknown until the settings are read.
        return None;
    }
    match known.namespaces.get(namespace) {
        Some(set) => set.deletion.as_ref().map(|_| Closed::Deleting),
        None if !core.options.explicit_namespaces || *namespace == Name::default_namespace() => None,
        None => Some(Closed::Unknown),
    }
}

/// The settings of a namespace, or `None` if nothing is set.
fn settings_of(current: Option<&StoredSetting>) -> ScopeSettings {
    match current.map(|standing| &standing.setting) {
        Some(Setting::Scope(set)) => set.clone(),
        _ => ScopeSettings::default(),
    }
}

async fn put(
    core: &Arc<Core>,
    namespace: Name,
    wanted: ScopeSettings,
    by: String,
    fits: impl Fn(i64) -> bool,
) -> Result<NamespacePut, Error> {
    let scope = Scope::Namespace(namespace);
    for _ in 0..TRIES {
        let current = control::current_setting(core, &scope).await?;
        let expected = current.as_ref().map_or(0, |standing| standing.revision);
        if settings_of(current.as_ref()).deletion.is_some() {
            return Ok(NamespacePut::Deleting);
        }
        if !fits(expected) {
            return Ok(NamespacePut::Otherwise(expected));
        }
        if let Some(current) = replace(core, &scope, wanted.clone(), (expected, &by)).await? {
            return Ok(NamespacePut::Done(current));
        }
    }
    Err(Error::Contended)
}

/// Returns `None` if the current revision is another one.
async fn replace(
    core: &Arc<Core>,
    scope: &Scope,
    settings: ScopeSettings,
    (expected, by): (i64, &str),
) -> Result<Option<StoredSetting>, Error> {
    let (setting, now) = (Setting::Scope(settings), core.now());
    let asked = SaveSetting {
        scope: scope.clone(),
        setting: Some(setting.clone()),
        expected: Some(expected),
        by: by.to_owned(),
    };
    match control::save(core, asked, now).await? {
        Saved::Done(revision) => Ok(Some(StoredSetting {
            scope: scope.clone(),
            setting,
            revision,
            updated_at: now,
            updated_by: by.to_owned(),
        })),
        Saved::Conflict(_) => Ok(None),
    }
}

/// Returns `None` if nothing of this name exists.
async fn delete(core: &Arc<Core>, namespace: Name, by: String) -> Result<Option<Stood>, Error> {
    let scope = Scope::Namespace(namespace.clone());
    for _ in 0..TRIES {
        let all = core.store.settings().await?.all;
        let is_of_queue = |standing: &StoredSetting| matches!(&standing.scope, Scope::Queue(of) if of.namespace == namespace);
        let has_queues = all.iter().any(is_of_queue);
        let current = all.into_iter().find(|standing| standing.scope == scope);
        let settings = settings_of(current.as_ref());
        if settings.deletion.is_some() {
            return Ok(Some(Stood { current, written: None }));
        }
        let tasks = match tasks_in(core, &namespace).await {
            Ok(tasks) => Some(tasks),
            // An unavailable database does not prevent the deletion of a namespace; its contents are then
            // unknown.
            Err(_) if current.is_some() || has_queues => None,
            Err(error) => return Err(error.into()),
        };
        if current.is_none() && !has_queues && tasks == Some(0) && !has_schedules(core, &namespace).await? {
            return Ok(None);
        }
        let deletion = Some(Box::new(Deletion { since: core.now(), by: by.clone(), tasks }));
        let expected = current.as_ref().map_or(0, |standing| standing.revision);
        let wanted = ScopeSettings { deletion, ..settings };
        if let Some(current) = replace(core, &scope, wanted, (expected, &by)).await? {
            tracing::info!(%namespace, tasks, "a namespace is being deleted");
            let written = Some(current.revision);
            return Ok(Some(Stood { current: Some(current), written }));
        }
    }
    Err(Error::Contended)
}

async fn has_schedules(core: &Core, namespace: &Name) -> Result<bool, punctual_contract::Error> {
    Ok(core.store.namespaces_with_schedules().await?.contains(namespace))
}

/// The number of tasks by the account, in all states.
pub(crate) async fn tasks_in(core: &Core, namespace: &Name) -> Result<u64, punctual_contract::Error> {
    let books = core.store.books().await?;
    let tasks: i64 = books
        .tallies
        .iter()
        .filter(|tally| tally.queue.namespace == *namespace)
        .map(|tally| tally.tasks)
        .sum();
    Ok(u64::try_from(tasks).unwrap_or(0))
}

impl Engine {
    /// The reason why a namespace accepts no new tasks, as far as this engine knows: at most a second behind the
    /// store.
    #[must_use]
    pub fn closed(&self, namespace: &Name) -> Option<Closed> {
        closed(&self.core, &self.core.settings.known(), namespace)
    }

    /// Makes a namespace, or gives it these settings, if its revision fits.
    ///
    /// # Errors
    /// A failing store; the error states whether it may be set all the same. Or [`Error::Contended`].
    pub async fn put_namespace(
        &self,
        namespace: Name,
        settings: ScopeSettings,
        by: &str,
        fits: impl Fn(i64) -> bool + Send + Sync + 'static,
    ) -> Result<NamespacePut, Error> {
        let (core, by) = (Arc::clone(&self.core), by.to_owned());
        self.run(async move { put(&core, namespace, settings, by, fits).await }).await
    }

    /// Begins to delete a namespace with all its contents. The beginning is durable when this returns; the live
    /// engines do the rest in small batches. `None` if nothing of this name exists.
    ///
    /// # Errors
    /// Fails like [`Engine::put_namespace`].
    pub async fn delete_namespace(&self, namespace: Name, by: &str) -> Result<Option<Stood>, Error> {
        let (core, by) = (Arc::clone(&self.core), by.to_owned());
        self.run(async move { delete(&core, namespace, by).await }).await
    }
}
