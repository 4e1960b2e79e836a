//! Guarded changes: a caller changes a task only if the task is as the caller saw it. And manual operations: bury a task
//! that waits, delete a finished one.

use crate::{
    answer::{Cancelled, Changed, Deleted, Error},
    change::{self, Cancel, Expected, Subject, revoke::TakenBack},
    core::Core,
    engine::Engine,
    long_payloads,
};
use punctual_contract::{
    namespaces::FinishedTask,
    store::{Applied, Change},
};
use punctual_domain::{place::TaskRef, task::Task};
use std::sync::Arc;

impl Engine {
    /// Cancels the unfired ones of these tasks, together; answers in order.
    ///
    /// # Errors
    /// A failing back end. Each task is unchanged, or cancelled with this `by`: then the same call reports it
    /// as cancelled.
    pub async fn revoke(&self, places: Vec<TaskRef>, by: &str) -> Result<Vec<TakenBack>, Error> {
        let (core, by) = (Arc::clone(&self.core), by.to_owned());
        self.run(async move { change::revoke::revoke(&core, &places, &by).await }).await
    }

    /// Cancels like [`Engine::cancel`]. At each try, `note` is called with the task as found; the last call has the
    /// task that was changed.
    ///
    /// # Errors
    /// Fails like [`Engine::cancel`].
    pub async fn cancel_noting(
        &self,
        place: TaskRef,
        stop_if_fired: bool,
        by: &str,
        note: impl Fn(&Task) + Send + Sync + 'static,
    ) -> Result<Cancelled, Error> {
        let (core, by, any) = (Arc::clone(&self.core), by.to_owned(), noting(note));
        self.run(async move { change::cancel_and_read(&core, place, stop_if_fired, &by, &any).await }).await
    }

    /// Runs like [`Engine::run_now`]; `note` as with [`Engine::cancel_noting`].
    ///
    /// # Errors
    /// Fails like [`Engine::run_now`].
    pub async fn run_now_noting(
        &self,
        place: TaskRef,
        by: &str,
        note: impl Fn(&Task) + Send + Sync + 'static,
    ) -> Result<Changed, Error> {
        let (execute_at, priority, payload, queue) = (Some(self.now()), None, None, None);
        let change = Change::Reschedule { execute_at, priority, payload, queue };
        self.reschedule(place, change, by, noting(note)).await?.ok_or(Error::Contended)
    }

    /// Redrives like [`Engine::redrive`]; `note` as with [`Engine::cancel_noting`].
    ///
    /// # Errors
    /// Fails like [`Engine::redrive`].
    pub async fn redrive_noting(
        &self,
        place: TaskRef,
        changes: Vec<Change>,
        by: &str,
        note: impl Fn(&Task) + Send + Sync + 'static,
    ) -> Result<Changed, Error> {
        let (core, by, any) = (Arc::clone(&self.core), by.to_owned(), noting(note));
        let redriven =
            async move { change::dead::redrive(&core, Subject::At(place), changes, &by, &any).await };
        self.run(redriven).await?.ok_or(Error::Contended)
    }

    /// Buries like [`Engine::bury`]; `note` as with [`Engine::cancel_noting`].
    ///
    /// # Errors
    /// Fails like [`Engine::bury`].
    pub async fn bury_noting(
        &self,
        place: TaskRef,
        reason: Option<&str>,
        by: &str,
        note: impl Fn(&Task) + Send + Sync + 'static,
    ) -> Result<Changed, Error> {
        let (core, by, reason) = (Arc::clone(&self.core), by.to_owned(), reason.map(str::to_owned));
        let any = noting(note);
        let buried = async move { change::bury(&core, Subject::At(place), reason, &by, &any).await };
        self.run(buried).await?.ok_or(Error::Contended)
    }

    /// Cancels like [`Engine::cancel`], for a task that was just read. Returns false if the cancel was refused, and
    /// `None` if `expected` refused the task.
    ///
    /// # Errors
    /// Fails like [`Engine::cancel`].
    pub async fn cancel_seen(
        &self,
        task: Task,
        stop_if_fired: bool,
        by: &str,
        expected: impl Fn(&Task) -> bool + Send + Sync + 'static,
    ) -> Result<Option<bool>, Error> {
        let (core, by, subject) = (Arc::clone(&self.core), by.to_owned(), Subject::Seen(Box::new(task)));
        let cancelled = async move { change::cancel(&core, subject, stop_if_fired, &by, &expected).await };
        Ok(self.run(cancelled).await?.map(|done| !matches!(done, Cancel::Was(Cancelled::AlreadyFired(_)))))
    }

    /// Changes like [`Engine::reschedule`], for a task that was just read.
    ///
    /// # Errors
    /// Fails like [`Engine::reschedule`].
    pub async fn reschedule_seen(
        &self,
        task: Task,
        change: Change,
        by: &str,
        expected: impl Fn(&Task) -> bool + Send + Sync + 'static,
    ) -> Result<Option<Changed>, Error> {
        let (core, by, subject) = (Arc::clone(&self.core), by.to_owned(), Subject::Seen(Box::new(task)));
        self.run(async move { change::reschedule(&core, subject, change, &by, &expected).await }).await
    }

    /// Changes the properties of a dead task, which stays dead; `change` is an `Amend`. `None` if `expected` refused
    /// the task.
    ///
    /// # Errors
    /// [`Error::NotFound`], a failing back end, or [`Error::Contended`].
    pub async fn amend(
        &self,
        place: TaskRef,
        change: Change,
        by: &str,
        expected: impl Fn(&Task) -> bool + Send + Sync + 'static,
    ) -> Result<Option<Changed>, Error> {
        let (core, by) = (Arc::clone(&self.core), by.to_owned());
        self.run(async move { change::dead::amend(&core, place, change, &by, &expected).await }).await
    }

    /// Redrives like [`Engine::redrive`], for a task that was just read. Returns `None` if `expected` refused the
    /// task.
    ///
    /// # Errors
    /// Fails like [`Engine::redrive`].
    pub async fn redrive_seen(
        &self,
        task: Task,
        by: &str,
        expected: impl Fn(&Task) -> bool + Send + Sync + 'static,
    ) -> Result<Option<Changed>, Error> {
        let (core, by, subject) = (Arc::clone(&self.core), by.to_owned(), Subject::Seen(Box::new(task)));
        self.run(async move { change::dead::redrive(&core, subject, Vec::new(), &by, &expected).await }).await
    }

    /// Moves a task that no executor has to the dead ones, where it can be inspected and redriven.
    ///
    /// # Errors
    /// [`Error::NotFound`], a failing back end, or [`Error::Contended`].
    pub async fn bury(&self, place: TaskRef, reason: Option<&str>, by: &str) -> Result<Changed, Error> {
        let (core, by, reason) = (Arc::clone(&self.core), by.to_owned(), reason.map(str::to_owned));
        let buried = async move { change::bury(&core, Subject::At(place), reason, &by, &|_| true).await };
        self.run(buried).await?.ok_or(Error::Contended)
    }

    /// Buries like [`Engine::bury`], for a task that was just read. Returns `None` if `expected` refused the task.
    ///
    /// # Errors
    /// Fails like [`Engine::bury`].
    pub async fn bury_seen(
        &self,
        task: Task,
        reason: Option<&str>,
        by: &str,
        expected: impl Fn(&Task) -> bool + Send + Sync + 'static,
    ) -> Result<Option<Changed>, Error> {
        let (core, by, reason) = (Arc::clone(&self.core), by.to_owned(), reason.map(str::to_owned));
        let subject = Subject::Seen(Box::new(task));
        self.run(async move { change::bury(&core, subject, reason, &by, &expected).await }).await
    }

    /// Deletes a finished task with its history and its payload. `None` if `expected` refused the task.
    ///
    /// # Errors
    /// [`Error::NotFound`] or a failing store.
    pub async fn delete(
        &self,
        place: TaskRef,
        expected: impl Fn(&Task) -> bool + Send + Sync + 'static,
    ) -> Result<Option<Deleted>, Error> {
        let core = Arc::clone(&self.core);
        self.run(async move { delete(&core, place, &expected).await }).await
    }
}

fn noting(note: impl Fn(&Task) + Send + Sync + 'static) -> impl Fn(&Task) -> bool + Send + Sync + 'static {
    move |task| {
        note(task);
        true
    }
}

async fn delete(core: &Arc<Core>, place: TaskRef, expected: &Expected) -> Result<Option<Deleted>, Error> {
    let mut refused = None;
    for _ in 0..change::TRIES {
        let task = change::read(core, place).await?;
        if !expected(&task) {
            return Ok(None);
        }
        // Or it is in an archive, and no row at all.
        if !task.state.is_finished() || refused == Some(task.fence) {
            return Ok(Some(Deleted::Refused(Box::new(task))));
        }
        let asked = FinishedTask { place, fence: task.fence, state: task.state };
        if core.store.delete_finished(vec![asked]).await? == [Applied::Moved] {
            let result = task.result.as_ref().and_then(|result| result.content.as_ref());
            let keys =
                [Some(&task.ask.payload), result].into_iter().flatten().filter_map(long_payloads::key_of);
            long_payloads::delete_soon(core, keys.collect());
            return Ok(Some(Deleted::Deleted(Box::new(task))));
        }
        // It was changed meanwhile, and may be finished still.
        refused = Some(task.fence);
    }
    Err(Error::Contended)
}
