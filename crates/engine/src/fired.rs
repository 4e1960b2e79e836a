//! What is told of a task that has fired and waits, before the store knows: that is told a moment later, and in batches
//! (`maintenance::mark_ready`), because nothing rests on it. Changes nothing.

use crate::engine::Engine;
use punctual_domain::{
    state::{Event, State},
    task::Task,
};

impl Engine {
    /// The task as it stands: ready from the instant at which this engine has fired it. What another has fired is as the
    /// store has it.
    #[must_use]
    pub fn as_fired(&self, task: Task) -> Task {
        let mark = self.core.unmarked.lock().get(&task.place.id).cloned();
        let fired_at = mark.filter(|it| it.fence == task.fence).map(|it| it.fired_at);
        let waits = task.state == State::Dispatching || task.state.after(Event::Claim).is_ok();
        match fired_at {
            Some(fired_at) if waits => Task { state: State::Ready, fired_at: Some(fired_at), ..task },
            _ => task,
        }
    }
}
