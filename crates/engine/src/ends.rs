//! Who wants to hear of each attempt, and of each task, that has ended, in whatever way: one listener at most, named before the
//! engine works. It must not wait, and nothing rests on it: what ends in the store while this engine dies is heard by none.

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
    /// True: it is the first, and hears.
    pub(crate) fn listen(&self, listener: Listener) -> bool {
        self.0.set(listener).is_ok()
    }

    pub(crate) fn ended(&self, task: TaskRef) {
        if let Some(listener) = self.0.get() {
            listener(task);
        }
    }
}
