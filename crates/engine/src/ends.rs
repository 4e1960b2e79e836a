//! The listener that is called when an attempt or a task has ended. At most one, registered before the engine starts. It must
//! not block, and nothing depends on it: if the engine dies, ends in the store reach no listener.

use punctual_domain::place::TaskRef;
use std::{fmt, sync::OnceLock};

type Listener = Box<dyn Fn(TaskRef) + Send + Sync>;

#[derive(Default)]
pub(crate) struct Ends(OnceLock<Listener>);

impl fmt::Debug for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ends").field(&self.0.get().is_some()).finish()
    }
}

impl Ends {
    /// True if this listener is the first, and is registered.
    pub(crate) fn listen(&self, listener: Listener) -> bool {
        self.0.set(listener).is_ok()
    }

    pub(crate) fn ended(&self, task: TaskRef) {
        if let Some(listener) = self.0.get() {
            listener(task);
        }
    }
}
