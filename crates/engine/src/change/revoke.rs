//! Revokes many unfired tasks at once: withdraws each from the hot set, then cancels all in one call of the
//! store. As with a single cancel, each task is cancelled or has fired. Tasks that have fired once are left
//! alone, even while they wait for another attempt. So are tasks that another caller cancelled.

use super::{
    Cancel, Cancelled, Changing, Core, Hold, Lease, Removed, State, Step, Subject, Task, TaskRef,
    cancel_removed, changed, entry_of, hold, load_again, note, put_back_held,
};
use crate::answer::Error;
use futures_util::{StreamExt as _, stream};
use hashbrown::HashMap;
use punctual_contract::store::{Applied, Change};
use std::sync::Arc;

/// Withdrawals from the hot set that are under way at one time, and tasks that are cancelled by themselves.
const AT_ONCE: usize = 16;

/// The result for one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenBack {
    /// Cancelled by this call, or by an earlier one with the same `by`: the task has not fired and never
    /// will.
    Cancelled,
    /// The task has fired, another caller has cancelled it, or it does not exist any more.
    Decided,
}

pub(crate) async fn revoke(core: &Arc<Core>, places: &[TaskRef], by: &str) -> Result<Vec<TakenBack>, Error> {
    let mut answers = Vec::with_capacity(places.len());
    let mut plain = Vec::new();
    for (nth, found) in core.store.read(places).await?.into_iter().enumerate() {
        answers.push(match found {
            Some(task) if is_plain(&task) => {
                plain.push((nth, task));
                None
            }
            Some(task) if !has_fired(&task) => answer_of_finished(&task, by),
            _ => Some(TakenBack::Decided),
        });
    }
    let removed = cancel_plain(core, plain, by, &mut answers).await?;
    let left = answers.iter().zip(places).enumerate().filter(|(_, (answer, _))| answer.is_none());
    let taken_out = |nth| removed.get(&nth).copied().unwrap_or_default();
    let left: Vec<_> = left.map(|(nth, (_, place))| (nth, *place, taken_out(nth))).collect();
    let singly: Vec<_> =
        left.into_iter().map(|(nth, place, removed)| one(core, nth, place, removed, by)).collect();
    for answered in stream::iter(singly).buffered(AT_ONCE).collect::<Vec<_>>().await {
        let (nth, answer) = answered?;
        set(&mut answers, nth, answer);
    }
    Ok(answers.into_iter().map(|answer| answer.unwrap_or(TakenBack::Decided)).collect())
}

/// Waits for its time, and no engine has leased it ahead.
fn is_plain(task: &Task) -> bool {
    matches!(task.state, State::Scheduled | State::Dispatching) && task.attempt == 0
}

fn has_fired(task: &Task) -> bool {
    match task.state {
        State::Scheduled | State::Dispatching | State::Blocked => task.attempt > 0,
        State::Dispatched => !task.lease.as_ref().is_some_and(Lease::is_ahead),
        State::Cancelled => false,
        _ => true,
    }
}

/// Returns `None` if the task must be cancelled separately.
fn answer_of_finished(task: &Task, by: &str) -> Option<TakenBack> {
    (task.state == State::Cancelled).then(|| answer_of_cancelled(task, by))
}

fn answer_of_cancelled(task: &Task, by: &str) -> TakenBack {
    let last = task.history.iter().rev().find(|entry| entry.to == State::Cancelled);
    match last {
        Some(entry) if entry.by == by => TakenBack::Cancelled,
        _ => TakenBack::Decided,
    }
}

/// Returns what was taken out of tasks that were not cancelled here. Such a task may have been leased first,
/// and no other caller returns that lease.
async fn cancel_plain(
    core: &Arc<Core>,
    tasks: Vec<(usize, Task)>,
    by: &str,
    answers: &mut [Option<TakenBack>],
) -> Result<HashMap<usize, Removed>, Error> {
    let mut taken_out = HashMap::new();
    if tasks.is_empty() {
        return Ok(taken_out);
    }
    let holding: Vec<_> = tasks.iter().map(|(nth, task)| hold_one(core, *nth, task)).collect();
    let (mut held, mut failed) = (Vec::new(), None);
    for (nth, task, answer) in stream::iter(holding).buffered(AT_ONCE).collect::<Vec<_>>().await {
        match answer {
            Ok((Hold::Held, removed)) => {
                taken_out.insert(nth, removed);
                // A task that an executor is about to get is decided separately.
                if let Some(changing) = changed::begin(core, entry_of(task), false) {
                    held.push((nth, task, changing));
                }
            }
            Ok((Hold::Fired, _)) => set(answers, nth, TakenBack::Decided),
            Err(error) => failed = Some(error),
        }
    }
    let entry = |(_, task, changing)| (entry_of(task), changing);
    if let Some(error) = failed {
        // The store was not asked.
        put_back_held(core, held.into_iter().map(entry).collect()).await;
        return Err(error);
    }
    let applied = match core.store.apply(steps(core, &held, by), core.now()).await {
        Ok(applied) => applied,
        Err(error) => {
            // Those that were cancelled all the same are refused by the store when they fire.
            load_again(core, held.into_iter().map(entry).collect(), &error).await;
            return Err(error.into());
        }
    };
    let mut made = Vec::new();
    for ((nth, task, changing), stepped) in held.into_iter().zip(applied) {
        if stepped.applied == Applied::Moved {
            made.push(changing.made());
            core.meters.queue(&task.ask.queue).cancelled(1);
            core.ends.ended(task.place);
            set(answers, nth, TakenBack::Cancelled);
            taken_out.remove(&nth);
        }
    }
    stream::iter(made).buffer_unordered(AT_ONCE).collect::<()>().await;
    Ok(taken_out)
}

async fn hold_one<'t>(
    core: &Core,
    nth: usize,
    task: &'t Task,
) -> (usize, &'t Task, Result<(Hold, Removed), Error>) {
    let mut removed = Removed::default();
    let held = hold(core, task, &mut removed).await;
    (nth, task, held.map(|held| (held, removed)))
}

fn steps(core: &Core, held: &[(usize, &Task, Changing<'_>)], by: &str) -> Vec<Step> {
    let step = |(_, task, _): &(usize, &Task, Changing<'_>)| {
        let keep_until = core.now().plus(core.keep(Some(&task.ask.queue)).cancelled_ms);
        Step {
            place: task.place,
            fence: Some(task.fence),
            change: Change::Cancel { keep_until },
            note: note(by),
            fired_at: None,
            known: None,
        }
    };
    held.iter().map(step).collect()
}

/// Cancels a task that was preleased, or that another caller has changed meanwhile. `removed`: the entries
/// that were already taken out.
async fn one(
    core: &Arc<Core>,
    nth: usize,
    place: TaskRef,
    removed: Removed,
    by: &str,
) -> Result<(usize, TakenBack), Error> {
    let may = |task: &Task| !has_fired(task);
    let answer = match cancel_removed(core, Subject::At(place), removed, false, by, &may).await {
        Ok(Some(Cancel::Withdrawn)) => TakenBack::Cancelled,
        Ok(Some(Cancel::Was(Cancelled::Cancelled(task)))) => answer_of_cancelled(&task, by),
        Ok(Some(Cancel::Was(_)) | None) | Err(Error::NotFound) => TakenBack::Decided,
        Err(error) => return Err(error),
    };
    Ok((nth, answer))
}

fn set(answers: &mut [Option<TakenBack>], nth: usize, answer: TakenBack) {
    if let Some(place) = answers.get_mut(nth) {
        *place = Some(answer);
    }
}
