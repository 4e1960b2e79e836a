//! A task that was just inserted, as a read would answer it, without the read.

use punctual_contract::store::Inserted;
use punctual_domain::{
    history::Entry,
    insert::{Decision, OnConflict},
    place::TaskRef,
    state::State,
    task::{NewTask, Task},
    time::Millis,
};

pub(crate) fn created(place: TaskRef, task_id: i64, ask: NewTask, (by, now): (&str, Millis)) -> Inserted {
    let entry = Entry {
        at: now,
        event: None,
        from: None,
        to: State::Scheduled,
        attempt: 0,
        by: by.to_owned(),
        due_at: Some(place.due_at),
        reason: None,
        error: None,
    };
    let task = Task {
        place,
        ask: NewTask { task_id: Some(task_id), on_conflict: OnConflict::default(), insert_by: None, ..ask },
        state: State::Scheduled,
        fence: 1,
        attempt: 0,
        due_at: place.due_at,
        fired_at: None,
        created_at: now,
        updated_at: now,
        keep_until: None,
        lease: None,
        progress: None,
        log: None,
        result: None,
        last_error: None,
        history: vec![entry],
    };
    Inserted { decision: Decision::Create, task }
}
