//! The promises, as checks: kept, never early, at least once and fenced, definite cancel, accounted for.

use super::{ops::How, world::World};
use punctual_contract::{
    Clock as _,
    store::{Assignment, Query},
};
use punctual_domain::{
    history::Entry,
    state::{Event, State},
    task::Task,
    time::Millis,
};
use std::{collections::HashMap, time::Duration};

/// More than there ever is.
const ALL: usize = 10_000;
/// Runs after which an unfinished task counts as lost.
const TURNS_TO_FINISH: usize = 2_000;

impl World {
    /// Never early, definite cancel, one success: at every hand-over.
    pub(super) fn check_lease(&mut self, lease: &Assignment) -> Result<(), String> {
        let now = self.now();
        self.starts.push(now);
        let uncertain_inserts = self.uncertain_inserts;
        if lease.fired_at < lease.due_at {
            return Err(format!("promise 2: {lease:?} fired before it was due"));
        }
        let Some(known) = self.known(lease.place.id) else {
            return if uncertain_inserts > 0 { Ok(()) } else { Err(format!("{lease:?} was never inserted")) };
        };
        if let Some(due_at) = known.due_at
            && lease.fired_at < due_at
            && !known.uncertain
        {
            return Err(format!("promise 2: {lease:?} fired before {due_at}, at {now}"));
        }
        if known.cancelled && !known.uncertain {
            return Err(format!("promise 5: {lease:?} was handed out after its cancel was confirmed"));
        }
        if known.succeeded && !known.uncertain {
            return Err(format!("promise 4: {lease:?} was handed out after its success"));
        }
        known.owes_a_lease = false;
        // When its next attempt is due, if there is one, the engine says.
        known.due_at = None;
        Ok(())
    }

    /// An earlier attempt, whose answer was lost, began after the instant. If the clock was set back since, a
    /// retry fires at a time before that instant, and is not early: the instant had been reached once.
    pub(super) async fn note_earlier_attempts(&mut self, leased: &[Assignment]) {
        for assignment in leased {
            let Some(due_at) = self.known(assignment.place.id).and_then(|known| known.due_at) else {
                continue;
            };
            if assignment.fired_at >= due_at || assignment.attempt < 2 {
                continue;
            }
            let began_in_time = |entry: &Entry| {
                entry.event == Some(Event::Dispatch)
                    && entry.attempt < assignment.attempt
                    && entry.at >= due_at
            };
            let task = self.truth_of(assignment.place).await;
            if task.is_some_and(|task| task.history.iter().any(began_in_time))
                && let Some(known) = self.known(assignment.place.id)
            {
                known.due_at = None;
            }
        }
    }

    /// Checks after every step that tasks are stored and accounted for.
    pub(super) async fn check(&self, nth: usize) -> Result<(), String> {
        let books = self.truth.books().await.map_err(|error| error.to_string())?;
        if books.unaccounted() != 0 {
            return Err(format!("promise 6: {} unaccounted: {books:?}", books.unaccounted()));
        }
        self.check_limits().await?;
        if nth.is_multiple_of(8) {
            let audit = self.truth.audit().await.map_err(|error| error.to_string())?;
            if audit != books {
                return Err(format!("promise 6: the books say {books:?}, the rows say {audit:?}"));
            }
            self.check_kept().await?;
        }
        if nth.is_multiple_of(64) {
            self.check_ledger().await?;
        }
        Ok(())
    }

    /// Account, register and rows.
    async fn check_ledger(&self) -> Result<(), String> {
        for part in 0..self.truth.parts() {
            let count = self.truth.count_ledger(part).await.map_err(|error| error.to_string())?;
            if let Some(count) = count.filter(|count| count.unaccounted() != 0) {
                return Err(format!("promise 6: the ledger does not balance: {count:?}"));
            }
        }
        Ok(())
    }

    async fn check_kept(&self) -> Result<(), String> {
        let places: Vec<_> = self.tasks.iter().map(|task| task.place).collect();
        let tasks = self.truth.read(&places).await.map_err(|error| error.to_string())?;
        for (known, task) in self.tasks.iter().zip(tasks) {
            let Some(task) = task else { continue };
            if known.cancelled && !known.uncertain && !matches!(task.state, State::Cancelled) {
                return Err(format!("promise 5: cancelled, and yet {task:?}"));
            }
            check_history(&task)?;
        }
        Ok(())
    }

    /// Lets everything finish: an unfinished task is lost.
    pub(super) async fn finish(&mut self) -> Result<(), String> {
        self.heal().await?;
        self.check_ledger().await?;
        for _ in 0..TURNS_TO_FINISH {
            self.run_once().await;
            self.lease(1_000, 10_000).await?;
            while let Some(held) = self.held.pop() {
                let answer = self.record_outcomes(&held, How::Succeed).await;
                answer.map_err(|error| format!("the last outcomes failed: {error}"))?;
            }
            let Some(engine) = self.engine() else { return Err("no engine is left".into()) };
            match engine.next_turn_at().await.map_err(|error| error.to_string())? {
                // Overdue tasks wait for a refill.
                Some(next) if next <= self.now() => self.wait(Duration::from_millis(500)).await,
                Some(next) => self.wait(self.clock.until(next)).await,
                None => {
                    self.check_all_finished().await?;
                    return self.check_nothing_left().await;
                }
            }
        }
        Err(format!("promise 1: not finished after {TURNS_TO_FINISH} turns: {}", self.unfinished().await))
    }

    /// Each task's history, as its callers and executors saw it, is one of a single task in one place.
    pub(super) async fn check_histories(&mut self) -> Result<(), String> {
        let until = self.until();
        let page = self.truth.list(&Query { limit: ALL, ..Query::default() }).await;
        let page = page.map_err(|error| error.to_string())?;
        let states: HashMap<i64, State> = page.tasks.iter().map(|task| (task.place.id, task.state)).collect();
        for id in self.recorder.tasks() {
            self.recorder.read(id, until, states.get(&id).copied());
        }
        let report = self.recorder.verdict();
        match report.violations.first() {
            Some(violation) => Err(format!("history: {violation}")),
            None if report.holds() => Ok(()),
            None => Err(format!("history: {report}")),
        }
    }

    /// Checks that no slot is held for finished tasks.
    async fn check_nothing_left(&mut self) -> Result<(), String> {
        for _ in 0..4 {
            self.wait(Duration::from_secs(5)).await;
            self.run_once().await;
            self.lease(1_000, 10_000).await?;
        }
        for node in self.nodes.iter().filter(|node| node.is_awake()) {
            let fired = node.engine.fired();
            if !fired.is_empty() {
                return Err(format!("all is finished, and an engine still has fired {fired:?}"));
            }
        }
        match self.nodes.iter().map(|node| node.engine.on_wheel()).max() {
            None | Some(0) => Ok(()),
            Some(waiting) => Err(format!("all is finished, and {waiting} tasks are on a wheel")),
        }
    }

    async fn unfinished(&self) -> String {
        let page = self.truth.list(&Query { limit: 1_000, ..Query::default() }).await;
        let tasks = page.map(|page| page.tasks).unwrap_or_default();
        let open: Vec<_> = tasks.iter().filter(|task| !task.state.is_finished()).map(summary).collect();
        open.join("; ")
    }

    async fn check_all_finished(&self) -> Result<(), String> {
        let query = Query { limit: 10_000, ..Query::default() };
        let page = self.truth.list(&query).await.map_err(|error| error.to_string())?;
        if let Some(open) = page.tasks.iter().find(|task| !task.state.is_finished()) {
            return Err(format!("promise 1: {} will never finish", summary(open)));
        }
        if let Some(owing) =
            self.tasks.iter().find(|task| task.owes_a_lease && !task.uncertain && !task.cancelled)
        {
            return self.check_owed(owing.place).await;
        }
        self.check(0).await
    }

    /// Checks a task for which "already fired" was answered: it must have been handed over since, or be dead by its
    /// deadline.
    async fn check_owed(&self, place: punctual_domain::place::TaskRef) -> Result<(), String> {
        let task = self.truth.read(&[place]).await.map_err(|error| error.to_string())?.pop().flatten();
        match task {
            // It was, and the answer was lost: an executor that had it has ended it.
            Some(task) if task.history.last().and_then(|entry| entry.event) == Some(Event::Abort) => Ok(()),
            Some(task) if task.state != State::Dead => {
                Err(format!("promise 5: told \"already fired\", and never handed out: {}", summary(&task)))
            }
            _ => Ok(()),
        }
    }
}

pub(super) fn summary(task: &Task) -> String {
    let Task { place, state, due_at, attempt, fence, .. } = task;
    format!("{place:?} {state:?} due {} attempt {attempt} fence {fence}", due_at.since(super::world::START))
}

/// Complete: each entry begins where the one before ended, and the last one matches the task.
fn check_history(task: &Task) -> Result<(), String> {
    let mut at: Option<&Entry> = None;
    for entry in &task.history {
        let legal = match (at, entry.event) {
            (None, None) => true,
            (Some(before), Some(event)) => {
                entry.from == Some(before.to) && before.to.after(event) == Ok(entry.to)
            }
            _ => false,
        };
        if !legal {
            return Err(format!("history breaks at {entry:?}: {:?}", task.history));
        }
        at = Some(entry);
    }
    match at {
        Some(last) if last.to == task.state && last.at >= Millis::ZERO => Ok(()),
        _ => Err(format!("history ends elsewhere than the task, {:?}: {:?}", task.state, task.history)),
    }
}
