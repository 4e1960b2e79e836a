//! Typed jobs: queue, kind and payload are defined in one place, for inserting and running code. None of it
//! is on the wire; a job is an ordinary task.

use serde::{Serialize, de::DeserializeOwned};

use crate::new_task::NewTask;

/// A type whose values are payloads of one kind of task, in one queue.
///
/// ```
/// use punctual_sdk::{Job, NewTask};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Welcome {
///     name: String,
/// }
///
/// impl Job for Welcome {
///     const QUEUE: &'static str = "mail";
///     const KIND: &'static str = "welcome";
///
///     // Common settings of all its tasks.
///     fn prepare(&self, task: NewTask) -> NewTask {
///         task.max_attempts(3)
///     }
/// }
/// ```
pub trait Job: Serialize + DeserializeOwned + Send + 'static {
    /// The queue of its tasks.
    const QUEUE: &'static str;
    /// The kind of the tasks.
    const KIND: &'static str;

    /// Sets the common settings of all its tasks: attempts, timeout, a key derived from the payload.
    #[must_use]
    fn prepare(&self, task: NewTask) -> NewTask {
        task
    }

    /// The task to insert, due now; `delay` and the like may follow.
    fn task(&self) -> Result<NewTask, serde_json::Error> {
        Ok(self.prepare(NewTask::to(Self::QUEUE).kind(Self::KIND).payload(self)?))
    }
}
