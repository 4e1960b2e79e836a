//! Finds a task by the caller's name for it: an id, or a key. A key maps to two ids, of which a task has one.

use crate::{answer::Error as EngineError, core::Core, engine::Engine};
use futures_util::future::BoxFuture;
use punctual_contract::Error;
use punctual_domain::{
    key::Key,
    name::Name,
    task::{NewTask, Task},
};

impl Engine {
    /// The versions of a key, the highest first.
    ///
    /// # Errors
    /// A failing store.
    pub fn versions_of_key<'a>(
        &'a self,
        namespace: &'a Name,
        key: &'a Key,
        version: Option<i64>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Task>, EngineError>> {
        Box::pin(async move { Ok(versions_of_key(&self.core, namespace, key, version, limit).await?) })
    }

    /// The stored tasks with the id or key of a task to insert, in any version, the highest first.
    ///
    /// # Errors
    /// A failing store.
    pub fn stored_task<'a>(
        &'a self,
        ask: &'a NewTask,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Task>, EngineError>> {
        Box::pin(async move { Ok(stored_task(&self.core, ask, None, limit).await?) })
    }

    /// The stored tasks with a key, or with an id that represents it; one read.
    ///
    /// # Errors
    /// A failing store.
    pub fn latest_of<'a>(
        &'a self,
        namespace: &'a Name,
        key: &'a Key,
        id: i64,
    ) -> BoxFuture<'a, Result<Option<Task>, EngineError>> {
        Box::pin(async move {
            let [first, second] = key.ids(namespace, self.core.store.partitions());
            let found = self.core.store.latest_versions(namespace, &[first, second, id]).await?;
            let is_of_key = |task: &&Task| task.ask.key.as_ref() == Some(key);
            let of_id = || found.iter().find(|task| task.task_id() == id);
            Ok(found.iter().find(is_of_key).or_else(of_id).cloned())
        })
    }
}

/// The versions of a key, the highest first.
pub(crate) async fn versions_of_key(
    core: &Core,
    namespace: &Name,
    key: &Key,
    version: Option<i64>,
    limit: usize,
) -> Result<Vec<Task>, Error> {
    let [first, second] = key.ids(namespace, core.store.partitions());
    let under = |task_id| core.store.versions(namespace, task_id, version, limit);
    let (mut tasks, others) = tokio::try_join!(under(first), under(second))?;
    tasks.extend(others);
    tasks.retain(|task| task.ask.key.as_ref() == Some(key));
    Ok(tasks)
}

/// The stored tasks that an insert names.
pub(crate) async fn stored_task(
    core: &Core,
    ask: &NewTask,
    version: Option<i64>,
    limit: usize,
) -> Result<Vec<Task>, Error> {
    let namespace = &ask.queue.namespace;
    match (&ask.key, ask.task_id) {
        (Some(key), _) => versions_of_key(core, namespace, key, version, limit).await,
        (None, Some(task_id)) => core.store.versions(namespace, task_id, version, limit).await,
        (None, None) => Ok(Vec::new()),
    }
}

/// The id that a task of a key has, or would have if it were inserted now.
pub(crate) async fn id_of_key(core: &Core, namespace: &Name, key: &Key) -> Result<i64, Error> {
    let [first, second] = key.ids(namespace, core.store.partitions());
    let found = core.store.latest_versions(namespace, &[first, second]).await?;
    let under = |id| found.iter().find(|task| task.task_id() == id);
    let is_own = |task: &Task| task.ask.key.as_ref() == Some(key);
    let is_second = under(second).is_some_and(is_own) || under(first).is_some_and(|task| !is_own(task));
    Ok(if is_second { second } else { first })
}
