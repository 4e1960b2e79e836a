//! Describes a change of a task for its history: the values before and after. The transaction of the change
//! writes it under the fence of the given task, so that it is true. Never contains contents.

use punctual_contract::store::Change;
use punctual_domain::task::Task;
use std::fmt::Display;

/// Returns `None` if the line of the history already has all of it.
pub(super) fn what_changes(task: &Task, change: &Change) -> Option<String> {
    let asked = &task.ask;
    let mut said = Vec::new();
    if let Some(to) = change.queue().filter(|to| **to != asked.queue.queue) {
        // The established wording, which other programs read.
        said.push(format!("from queue {} to {to}", asked.queue.queue));
    }
    match change {
        Change::Reschedule { execute_at, priority, .. } => {
            said.extend(turned(
                "execute_at_ms",
                asked.execute_at.0,
                execute_at.map(|execute_at| execute_at.0),
            ));
            said.extend(turned(
                "priority",
                asked.priority.level(),
                priority.map(|priority| priority.level()),
            ));
        }
        Change::Amend { max_attempts, priority, timeout_ms, retry, .. } => {
            said.extend(turned("max_attempts", asked.max_attempts, *max_attempts));
            said.extend(turned(
                "priority",
                asked.priority.level(),
                priority.map(|priority| priority.level()),
            ));
            let before =
                asked.timeout_ms.map_or_else(|| "none".to_owned(), |timeout_ms| timeout_ms.to_string());
            said.extend(turned("timeout_ms", before, timeout_ms.map(|timeout_ms| timeout_ms.to_string())));
            said.extend(
                retry
                    .as_ref()
                    .filter(|retry_policy| **retry_policy != asked.retry)
                    .map(|_| "another retry policy".to_owned()),
            );
        }
        _ => {}
    }
    if change.payload().is_some() {
        said.push("another payload".to_owned());
    }
    (!said.is_empty()).then(|| said.join(", "))
}

fn turned<T: Display + PartialEq>(field: &str, from: T, to: Option<T>) -> Option<String> {
    to.filter(|to| *to != from).map(|to| format!("{field} from {from} to {to}"))
}
