//! Changes of dead tasks: an amend, and a redrive. Dead tasks are neither in the table nor in the hot set, so
//! the store's conditional update decides alone. Must not change a task that is not dead.

use super::{
    Applied, Arc, Change, Changed, Core, Error, Event, Expected, Note, Put, Step, Subject, TRIES, Task,
    TaskRef, long_payloads, note, put_back, put_payload, read, read_changed, what_changes,
};

/// Changes a dead task; `change` is an `Amend`. Of a concurrent redrive, deletion and amend, the store lets
/// one be first: the others meet another fence, or no row.
pub(crate) async fn amend(
    core: &Arc<Core>,
    place: TaskRef,
    mut change: Change,
    by: &str,
    expected: &Expected,
) -> Result<Option<Changed>, Error> {
    let put = put_payload(core, place, &mut change).await?;
    let amended = try_amend(core, place, &change, by, expected).await;
    // After an error the row may contain it.
    if matches!(&amended, Ok(None | Some(Changed::Refused(_)))) {
        long_payloads::delete_soon(core, long_payloads::keys(put));
    }
    amended
}

async fn try_amend(
    core: &Arc<Core>,
    place: TaskRef,
    change: &Change,
    by: &str,
    expected: &Expected,
) -> Result<Option<Changed>, Error> {
    let mut refused = None;
    for _ in 0..TRIES {
        let task = read(core, place).await?;
        if !expected(&task) {
            return Ok(None);
        }
        // Or it is in an archive, and no row at all.
        if task.state.after(Event::Amend).is_err() || refused == Some(task.fence) {
            return Ok(Some(Changed::Refused(Box::new(task))));
        }
        let note = Note { reason: what_changes(&task, change), ..note(by) };
        let step = Step {
            place,
            fence: Some(task.fence),
            change: change.clone(),
            note,
            fired_at: None,
            known: None,
        };
        if core.store.apply(vec![step], core.now()).await? == [Applied::Moved] {
            if change.payload().is_some() {
                long_payloads::delete_soon(
                    core,
                    long_payloads::key_of(&task.ask.payload).into_iter().collect(),
                );
            }
            return Ok(Some(Changed::Changed(Box::new(read_changed(core, place).await?))));
        }
        refused = Some(task.fence);
    }
    Err(Error::Contended)
}

/// Redrives a task, only if it is dead. Its other changes are applied with the redrive, or none is.
pub(crate) async fn redrive(
    core: &Arc<Core>,
    mut subject: Subject,
    mut changes: Vec<Change>,
    by: &str,
    expected: &Expected,
) -> Result<Option<Changed>, Error> {
    let place = subject.place();
    let mut put = Put::new();
    for change in &mut changes {
        put.extend(put_payload(core, place, change).await?);
    }
    let redriven = try_redrive(core, &mut subject, &changes, by, expected).await;
    // After an error the row may contain it.
    if matches!(&redriven, Ok(None | Some(Changed::Refused(_)))) {
        long_payloads::delete_soon(core, long_payloads::keys(put));
    }
    redriven
}

/// One unit of work: changes of the dead task, the redrive, then changes of the waiting task. Each step
/// expects the fence that its predecessor leaves. If one is lost, so are the later ones.
fn steps_of_redrive(task: &Task, changes: &[Change], by: &str, redrive: Change) -> Vec<Step> {
    let (before, after): (Vec<_>, Vec<_>) =
        changes.iter().cloned().partition(|change| matches!(change, Change::Amend { .. }));
    let all = before.into_iter().chain([redrive]).chain(after);
    let step = |(fence, change)| Step {
        place: task.place,
        fence: Some(fence),
        note: Note { reason: what_changes(task, &change), ..note(by) },
        change,
        fired_at: None,
        known: None,
    };
    (task.fence..).zip(all).map(step).collect()
}

async fn try_redrive(
    core: &Arc<Core>,
    subject: &mut Subject,
    changes: &[Change],
    by: &str,
    expected: &Expected,
) -> Result<Option<Changed>, Error> {
    let mut refused = None;
    for _ in 0..TRIES {
        let task = subject.look(core).await?;
        if !expected(&task) {
            return Ok(None);
        }
        // Or it is in an archive, and no row at all.
        if task.state.after(Event::Redrive).is_err() || refused == Some(task.fence) {
            return Ok(Some(Changed::Refused(Box::new(task))));
        }
        let redrive = Change::Redrive { execute_at: core.now() };
        let steps = steps_of_redrive(&task, changes, by, redrive);
        if core.store.apply(steps, core.now()).await?.last().is_some_and(|last| *last == Applied::Moved) {
            let replaces = changes.iter().any(|change| change.payload().is_some());
            let old = long_payloads::key_of(&task.ask.payload).filter(|_| replaces);
            long_payloads::delete_soon(core, old.into_iter().collect());
            return Ok(Some(Changed::Changed(Box::new(put_back(core, task.place).await?))));
        }
        // It was changed meanwhile, and may be dead still.
        refused = Some(task.fence);
    }
    Err(Error::Contended)
}
