//! Dead letters, grouped by queue and error, so that one sees the number of causes, and not the number of tasks. A
//! bulk operation redrives or deletes a group; it counts first, and it is offered only if a text finds the group and
//! no other. The groups cover the tasks that were read, and the page shows their number.

use crate::{
    context::Context,
    fault::Fault,
    parts, texts,
    view::{Page, View},
};
use maud::{Markup, html};
use punctual_protocol::{Page as Items, Task};
use std::collections::HashMap;

/// The number of dead tasks that one page reads.
const LOOKED_AT: &str = "500";
/// The part of an error that identifies it.
const SAME_CHARS: usize = 160;
/// A shorter text is in errors of any kind.
const TELLING_MIN_CHARS: usize = 4;

pub(super) fn pages() -> Vec<Page> {
    vec![Page { path: "/console/dead-letters", show: |context| Box::pin(list(context)), act: None }]
}

struct Group<'a> {
    queue: &'a str,
    kind: &'a str,
    /// The text that all errors of the group share, see [`alike`].
    alike: String,
    tasks: Vec<&'a Task>,
}

async fn list(context: &Context) -> Result<View, Fault> {
    let mut query = vec![("limit", LOOKED_AT)];
    query.extend(
        ["queue", "kind", "error", "cursor"]
            .into_iter()
            .filter_map(|name| Some((name, context.query(name)?))),
    );
    let page: Items<Task> = context.api.get_with("/v1/dead-letters", &query).await?;
    Ok(View::new("Dead letters", "Tasks that will not run again by themselves, newest first, grouped by queue, kind and error. Fix the cause, then redrive the group.")
        .part(filters(context))
        .part(groups(context, &page)))
}

fn filters(context: &Context) -> Markup {
    let given = |name: &str| context.query(name).unwrap_or("");
    html! {
        form.filters #filters method="get" action="/console/dead-letters" role="search" aria-label="Dead letters" data-filter {
            @if context.namespace != "default" { input type="hidden" name="ns" value=(context.namespace); }
            div { label for="queue" { "Queue" } (parts::input("queue", given("queue"), "")) }
            div { label for="kind" { "Kind" } (parts::input("kind", given("kind"), "")) }
            div { label for="error" { "Text in the error" } (parts::input("error", given("error"), "")) }
            button type="submit" { "Show" }
        }
    }
}

/// The first line of an error, with its numbers taken out: two that differ in a number or an id are one.
fn alike(error: &str) -> String {
    let line = error.lines().next().unwrap_or_default();
    let mut text = String::new();
    for letter in line.chars().take(SAME_CHARS) {
        match letter {
            '0'..='9' if text.ends_with('#') => {}
            '0'..='9' => text.push('#'),
            other => text.push(other),
        }
    }
    text
}

fn grouped(items: &[Task]) -> Vec<Group<'_>> {
    let mut places: HashMap<(&str, &str, String), usize> = HashMap::new();
    let mut groups: Vec<Group<'_>> = Vec::new();
    for task in items {
        let alike = alike(task.last_error.as_deref().unwrap_or_default());
        let place = *places.entry((&task.queue, &task.kind, alike.clone())).or_insert_with(|| {
            groups.push(Group { queue: &task.queue, kind: &task.kind, alike, tasks: Vec::new() });
            groups.len() - 1
        });
        if let Some(group) = groups.get_mut(place) {
            group.tasks.push(task);
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.tasks.len()));
    groups
}

fn groups(context: &Context, page: &Items<Task>) -> Markup {
    if page.items.is_empty() {
        let is_filtered = ["queue", "kind", "error"].into_iter().any(|name| context.query(name).is_some());
        return match is_filtered {
            true => parts::empty(
                "No dead task is like that.",
                &html! { a href=(context.href("/console/dead-letters", &[])) { "All dead letters" } },
            ),
            false => parts::empty(
                "Nothing is dead.",
                &html! { "A task is listed here when its attempts are exhausted, when an executor rejects it, or when a user buries it." },
            ),
        };
    }
    let groups = grouped(&page.items);
    let all = page.items.len() as u64;
    html! {
        p #counted {
            strong { (texts::count(groups.len() as u64, "cause", "causes")) } " in "
            @match page.next_cursor.is_some() {
                true => { "the newest " (texts::number(all)) " dead tasks; there are more" },
                false => (texts::count(all, "dead task", "dead tasks")),
            } "."
        }
        @for (nth, group) in groups.iter().take(100).enumerate() { (one(context, nth, group, telling(group, &groups).as_deref())) }
        @if groups.len() > 100 { p.dim { "The 100 largest groups." } }
        @if let Some(next) = &page.next_cursor { p { a.button href=(context.here_with("cursor", next)) { "Look at older ones" } } }
    }
}

fn one(context: &Context, nth: usize, group: &Group<'_>, telling: Option<&str>) -> Markup {
    let Some(newest) = group.tasks.first() else { return html! {} };
    let error = newest.last_error.as_deref().unwrap_or("no error is known");
    let among = [("queue", group.queue), ("kind", group.kind), ("state", "dead")];
    html! {
        section.panel data-row data-group=(nth) {
            div.panel-head {
                h2 { (parts::badge(&texts::number(group.tasks.len() as u64), "bad")) " " a href=(context.href("/console/tasks", &among)) { (group.queue) " · " (group.kind) } }
                div.buttons.small { (buttons(context, among, telling)) }
            }
            pre { (parts::short(error, 1_000)) }
            p.hint { @match telling {
                Some(text) => { "The group is the dead tasks of this queue and kind with " code { (text) } " in its error." },
                None => { "No text matches exactly these errors, so they cannot be changed as a group. Select them among " a href=(context.href("/console/tasks", &among)) { "the dead of this queue and kind" } "." },
            } }
            details id={ "group-" (group.queue) "-" (group.kind) "-" (nth) } {
                summary { "Newest " (parts::ago(context, newest.finished_at_ms.unwrap_or(newest.updated_at_ms))) ", for example " code { (newest.reference()) } }
                ul.chain { @for task in group.tasks.iter().take(20) {
                    li { (parts::task_link(context, task.reference())) " " (parts::ago(context, task.updated_at_ms)) " " span.dim { (parts::short(task.last_error.as_deref().unwrap_or_default(), 160)) } }
                } }
            }
        }
    }
}

/// The buttons, disabled for a group without a text: the operation would cover all dead tasks of the queue and kind.
fn buttons(context: &Context, among: [(&str, &str); 3], telling: Option<&str>) -> Markup {
    const ACTIONS: [(&str, &str, &str); 2] =
        [("redrive", "redrive", "Redrive the group…"), ("operate", "delete", "Delete the group…")];
    html! {
        @for (permission, action, label) in ACTIONS {
            @match (context.lacks(permission), telling) {
                (Some(why), _) => (parts::dead_button(label, &why)),
                (None, None) => (parts::dead_button(label, "No search text matches exactly these tasks.")),
                (None, Some(text)) => {
                    @let query: Vec<_> = among.into_iter().chain([("action", action), ("error", text)]).collect();
                    a.button href=(context.href("/console/bulk/new", &query)) { (label) }
                },
            }
        }
    }
}

/// The longest text that is in each error of the group, and in none of another group of this queue and kind: the API
/// searches for errors that contain a text, letter for letter. Between the numbers that were removed, errors of a
/// group are the same; and if that is not sufficient, they may begin alike, numbers and all.
fn telling(group: &Group<'_>, all: &[Group<'_>]) -> Option<String> {
    let beginning = beginning(group);
    let mut texts: Vec<&str> = group.alike.split('#').map(str::trim).collect();
    texts.sort_by_key(|text| std::cmp::Reverse(text.chars().count()));
    texts.push(beginning.trim());
    let others = || all.iter().filter(|other| (other.queue, other.kind) == (group.queue, group.kind));
    let others = || others().filter(|other| other.alike != group.alike).flat_map(|group| &group.tasks);
    let is_of_others = |text: &str| {
        others().any(|task| task.last_error.as_deref().is_some_and(|last_error| last_error.contains(text)))
    };
    texts.into_iter().find(|text| is_telling(text) && !is_of_others(text)).map(str::to_owned)
}

fn is_telling(text: &str) -> bool {
    text.chars().count() >= TELLING_MIN_CHARS && text.chars().any(char::is_alphabetic)
}

/// The common beginning of all errors of a group.
fn beginning(group: &Group<'_>) -> String {
    let mut errors = group.tasks.iter().map(|task| task.last_error.as_deref().unwrap_or_default());
    let first = errors.next().and_then(|error| error.lines().next()).unwrap_or_default();
    let mut beginning: String = first.chars().take(SAME_CHARS).collect();
    for error in errors {
        let same = beginning.chars().zip(error.chars()).take_while(|pair| pair.0 == pair.1).count();
        beginning = beginning.chars().take(same).collect();
    }
    beginning
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_differ_in_numbers_are_alike() {
        assert_eq!(alike("timeout after 300 ms\nat line 7"), "timeout after # ms");
        assert_eq!(alike("user 12 of 9"), alike("user 9999 of 1"));
        assert_ne!(alike("no route"), alike("no room"));
    }

    fn dead(queue: &str, error: Option<&str>) -> Task {
        let task = serde_json::json!({
            "ref": "1-1-1", "namespace": "default", "task_id": 1, "task_version": 1, "queue": queue, "kind": "work", "priority": 3,
            "state": "dead", "phase": "failed", "attempt": 1, "max_attempts": 1, "last_error": error,
            "execute_at": "2030-01-01T00:00:00Z", "execute_at_ms": 1, "created_at": "2030-01-01T00:00:00Z", "created_at_ms": 1,
            "updated_at": "2030-01-01T00:00:00Z", "updated_at_ms": 1,
        });
        serde_json::from_value(task).unwrap()
    }

    fn texts(errors: &[Option<&str>]) -> Vec<Option<String>> {
        let tasks: Vec<Task> = errors.iter().map(|error| dead("mail", *error)).collect();
        let groups = grouped(&tasks);
        groups.iter().map(|group| telling(group, &groups)).collect()
    }

    #[test]
    fn a_group_whose_errors_begin_with_numbers_is_found_by_what_stands_behind_them() {
        assert_eq!(
            texts(&[Some("12 items failed"), Some("9 items failed"), Some("card 4 was refused")]),
            [Some("items failed".to_owned()), Some("was refused".to_owned())]
        );
    }

    #[test]
    fn what_others_have_in_their_errors_too_does_not_name_a_group() {
        assert_eq!(
            texts(&[Some("timeout"), Some("timeout"), Some("timeout of the proxy")]),
            [None, Some("timeout of the proxy".to_owned())]
        );
        // Of another queue they are found by the queue.
        let tasks = [dead("a", Some("timeout")), dead("b", Some("timeout of the proxy"))];
        let groups = grouped(&tasks);
        assert!(groups.iter().all(|group| telling(group, &groups).is_some()));
    }

    #[test]
    fn without_a_text_or_with_next_to_none_nothing_names_a_group() {
        assert_eq!(texts(&[None, None]), [None]);
        assert_eq!(texts(&[Some("500"), Some("502")]), [None]);
        assert_eq!(texts(&[Some("E12"), Some("E7")]), [None]);
    }
}
