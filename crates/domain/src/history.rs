//! The record of a task's state changes, and its stored form: one JSON array per line, appended in the same
//! statement as the change. Stored lines must stay readable forever: fields are only ever added at the end.

use crate::{
    state::{Event, State},
    task::Lease,
    time::Millis,
};
use serde::Serialize;
use std::borrow::Cow;

/// One change of state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    pub at: Millis,
    /// `None` is the insert.
    pub event: Option<Event>,
    pub from: Option<State>,
    pub to: State,
    pub attempt: u32,
    /// The author: an engine, an executor, a caller.
    pub by: String,
    /// The execution time that this change set.
    pub due_at: Option<Millis>,
    pub reason: Option<String>,
    pub error: Option<String>,
}

/// The parts of a history line that the caller of the store supplies; the store adds state and attempt.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Note {
    pub by: String,
    pub due_at: Option<Millis>,
    pub reason: Option<String>,
    pub error: Option<String>,
}

/// The longest error text in a history line, and as a task's last error, in bytes: the size of a MySQL
/// `TEXT`.
pub const ERROR_LEN_MAX: usize = 65_535;
/// The maximum length of an error that is stored in full, as the result of its attempt, in bytes of its JSON.
pub const WHOLE_ERROR_LEN_MAX: usize = 1 << 20;
/// The maximum length of a history in bytes. A longer history loses the lines of its older half, except for the first
/// line. The half that stays includes the longest error in full. After the first line, the statement writes the
/// number of removed lines, as ` +12` each time.
pub const HISTORY_LEN_MAX: usize = 262_144;
const _: () = assert!(HISTORY_LEN_MAX / 2 > ERROR_LEN_MAX + ERROR_LEN_MAX / 2);

/// The error of an attempt whose executor was silent begins with this, then names the executor as a JSON string.
const EXECUTOR: &str = "executor ";

/// `(at, event, from, attempt, by, due_at, reason, error)`.
type Line = (i64, String, u8, u32, String, Option<i64>, Option<String>, Option<String>);

/// A line in two parts: between them the statement puts `<state>,<attempt>` of the row that it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitLine {
    pub head: String,
    pub tail: String,
}

/// The stored line of `event` at `at`, or `None` for the insert.
#[must_use]
pub fn line(at: Millis, event: Option<Event>, note: &Note) -> SplitLine {
    let word = event.map_or("insert", Event::word);
    let error = note.error.as_deref().map(error);
    let tail = (&note.by, note.due_at.map(|due_at| due_at.0), &note.reason, error);
    let tail = serde_json::to_string(&tail).expect("strings and numbers always have a JSON form");
    SplitLine { head: format!("[{},\"{word}\",", at.0), tail: format!(",{}\n", tail.trim_start_matches('[')) }
}

/// Unreadable lines (an older program may have cut one) are skipped. The first line says how many later lines
/// were removed.
#[must_use]
pub fn decode(text: &str) -> Vec<Entry> {
    let (first, others) = text.split_once('\n').unwrap_or((text, ""));
    let end = first.rfind(']').map_or(first.len(), |last| last + 1);
    let (first, left_out) = first.split_at(end);
    let left_out: u64 = left_out.split(" +").filter_map(|count| count.parse::<u64>().ok()).sum();
    let first = entry(first).map(|entry| match left_out {
        0 => entry,
        _ => {
            let said = format!("{left_out} changes after this one are left out");
            Entry {
                reason: Some(entry.reason.map_or_else(|| said.clone(), |why| format!("{why}; {said}"))),
                ..entry
            }
        }
    });
    first.into_iter().chain(others.lines().filter_map(entry)).collect()
}

fn entry(line: &str) -> Option<Entry> {
    let (at, word, from, attempt, by, due_at, reason, error) = serde_json::from_str::<Line>(line).ok()?;
    let event = Event::from_word(&word);
    if event.is_none() && word != "insert" {
        return None;
    }
    let from = event.and_then(|_| State::from_code(from));
    let to = event.map_or(State::Scheduled, Event::target);
    let (at, due_at) = (Millis(at), due_at.map(Millis));
    Some(Entry { at, event, from, to, attempt, by, due_at, reason, error })
}

/// Names executors in the `dispatch` lines of engines that leased ahead, before they knew which executor would get the
/// task. The same attempt's first heartbeat, the loss of its executor, or the current lease names it. An attempt that
/// ended before any of these keeps its engine: its outcome names the caller, who may serve many executors.
pub fn name_executors(history: &mut [Entry], lease: Option<&Lease>) {
    let mut executor = lease.filter(|lease| !lease.is_ahead()).map(|lease| lease.executor.clone());
    for entry in history.iter_mut().rev() {
        match entry.event {
            Some(Event::Dispatch) => {
                let named = executor.take().filter(|_| entry.by.starts_with('('));
                entry.by = named.unwrap_or_else(|| std::mem::take(&mut entry.by));
            }
            Some(Event::Start) => executor = Some(entry.by.clone()),
            _ => executor = entry.error.as_deref().and_then(lost_executor).or_else(|| executor.take()),
        }
    }
}

/// The error of an attempt whose executor was silent for too long.
#[must_use]
pub fn executor_lost(executor: &str, what: &str) -> String {
    format!("{EXECUTOR}{} {what}", serde_json::Value::from(executor))
}

/// The executor that `executor_lost` named.
fn lost_executor(error: &str) -> Option<String> {
    let quoted = error.strip_prefix(EXECUTOR)?;
    serde_json::Deserializer::from_str(quoted).into_iter::<String>().next()?.ok()
}

/// An error in its stored form. A long error is truncated, with a note.
#[must_use]
pub fn error(text: &str) -> Cow<'_, str> {
    if text.len() <= ERROR_LEN_MAX {
        return Cow::Borrowed(text);
    }
    let said = format!(" … (cut: the beginning of {} bytes)", text.len());
    Cow::Owned(format!("{}{said}", clip(text, ERROR_LEN_MAX - said.len())))
}

/// An error as JSON, in full up to the maximum length; beyond it, only its beginning.
#[must_use]
pub fn whole_error(text: &str) -> String {
    let json = |text: &str| serde_json::Value::from(text).to_string();
    // No text is shorter in JSON; some characters are longer, at most six times.
    let mut part = clip(text, WHOLE_ERROR_LEN_MAX - 2);
    let mut whole = json(part);
    while whole.len() > WHOLE_ERROR_LEN_MAX {
        part = clip(part, part.len() / 2);
        whole = json(part);
    }
    whole
}

/// Returns the longest prefix of at most `bytes` bytes that ends between characters.
#[must_use]
pub fn clip(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_back_as_what_was_written() {
        let error = "line\nbreak \"quoted\" \u{1F980}".to_owned();
        let note = Note {
            by: "x,1".into(),
            due_at: Some(Millis(9)),
            reason: Some("failed".into()),
            error: Some(error),
        };
        let line = line(Millis(5), Some(Event::Retry), &note);
        let text = format!("{}{},{}{}", line.head, State::Running.code(), 2, line.tail);
        assert_eq!(text.lines().count(), 1);
        let read = decode(&text).remove(0);
        assert_eq!((read.at, read.event, read.attempt), (Millis(5), Some(Event::Retry), 2));
        assert_eq!((read.from, read.to), (Some(State::Running), State::Retrying));
        assert_eq!(Note { by: read.by, due_at: read.due_at, reason: read.reason, error: read.error }, note);
    }

    #[test]
    fn a_history_that_was_cut_keeps_its_whole_lines() {
        let line = line(Millis(5), None, &Note::default());
        let whole = format!("{}1,0{}", line.head, line.tail);
        let text = format!("{}{whole}", whole.get(7..).unwrap());
        assert_eq!(decode(&text).len(), 1);
    }

    #[test]
    fn what_is_left_out_is_counted_behind_the_first_line_which_stays() {
        let first = line(Millis(5), None, &Note { by: "ada".into(), ..Note::default() });
        let next = line(Millis(6), Some(Event::Claim), &Note::default());
        let next = format!("{}1,0{}", next.head, next.tail);
        let read =
            |counts: &str| decode(&format!("{}1,0{}{counts}\n{next}", first.head, first.tail.trim_end()));
        assert_eq!(read("").iter().map(|entry| entry.reason.clone()).collect::<Vec<_>>(), [None, None]);
        assert_eq!(read(" +0")[0].reason, None);
        for (counts, sum) in [(" +1", 1), (" +12 +0 +9", 21)] {
            let read = read(counts);
            assert_eq!((read.len(), read[0].by.as_str(), read[1].event), (2, "ada", Some(Event::Claim)));
            assert_eq!(read[0].reason, Some(format!("{sum} changes after this one are left out")));
        }
        let with_reason = decode("[5,\"insert\",1,0,\"ada\",null,\"again\",null] +3\n");
        assert_eq!(with_reason[0].reason.as_deref(), Some("again; 3 changes after this one are left out"));
        // An older program has cut off the beginning of the first line.
        assert_eq!(decode(&format!("rest\",null,null] +7\n{next}")).len(), 1);
    }

    #[test]
    fn a_dispatch_ahead_names_the_executor_of_the_attempt() {
        let entry = |event: Event, by: &str, reason: Option<&str>, error: Option<String>| Entry {
            at: Millis(0),
            event: Some(event),
            from: None,
            to: event.target(),
            attempt: 1,
            by: by.to_owned(),
            due_at: None,
            reason: reason.map(str::to_owned),
            error,
        };
        let ahead = || entry(Event::Dispatch, "(e1)", None, None);
        let lost = executor_lost("x \"3\"", "gave no sign of life before its lease ended");
        let mut history = vec![
            ahead(),
            entry(Event::Release, "e1", None, None),
            ahead(),
            entry(Event::Start, "x1", None, None),
            entry(Event::Retry, "workers", Some("failed"), None),
            entry(Event::Dispatch, "x2", None, None),
            entry(Event::Retry, "e2", Some("lease_expired"), None),
            ahead(),
            entry(Event::Retry, "e2", Some("lease_expired"), Some(lost)),
            ahead(),
            entry(Event::Succeed, "workers", None, None),
            entry(Event::Retire, "e1", None, None),
        ];
        let last = ahead();
        let dispatched_by = |history: &[Entry]| -> Vec<String> {
            let dispatches = history.iter().filter(|entry| entry.event == Some(Event::Dispatch));
            dispatches.map(|entry| entry.by.clone()).collect()
        };
        name_executors(&mut history, None);
        assert_eq!(dispatched_by(&history), ["(e1)", "x1", "x2", "x \"3\"", "(e1)"]);
        let lease = |executor: &str| Lease {
            executor: executor.to_owned(),
            until: Millis(1),
            since: Millis(0),
            cancel_requested: false,
        };
        for (executor, named) in [("x5", "x5"), ("(e1)", "(e1)")] {
            let mut current = vec![last.clone()];
            name_executors(&mut current, Some(&lease(executor)));
            assert_eq!(dispatched_by(&current), [named]);
        }
    }

    #[test]
    fn an_error_that_is_cut_says_so_and_keeps_its_beginning() {
        let fits = "é".repeat(ERROR_LEN_MAX / 2);
        assert_eq!(error(&fits), fits);
        let long = "é".repeat(ERROR_LEN_MAX);
        let cut = error(&long);
        assert!(cut.len() <= ERROR_LEN_MAX && cut.len() > ERROR_LEN_MAX - 3, "{}", cut.len());
        assert!(cut.starts_with("éé") && cut.ends_with(" … (cut: the beginning of 131070 bytes)"));
        assert_eq!(error(&cut), cut, "once");
    }

    #[test]
    fn a_whole_error_is_whole_up_to_its_bound() {
        let long = "é\n".repeat(100_000);
        assert_eq!(serde_json::from_str::<String>(&whole_error(&long)).unwrap(), long);
        let exact = "x".repeat(WHOLE_ERROR_LEN_MAX - 2);
        assert_eq!(whole_error(&exact).len(), WHOLE_ERROR_LEN_MAX);
        assert_eq!(whole_error(&format!("{exact}y")), whole_error(&exact), "the beginning");
        for worst in ["\u{1}", "é", "\"", "x"] {
            let longer = worst.repeat(5 * WHOLE_ERROR_LEN_MAX);
            let kept = whole_error(&longer);
            assert!(
                kept.len() <= WHOLE_ERROR_LEN_MAX && kept.len() > WHOLE_ERROR_LEN_MAX / 4,
                "{}",
                kept.len()
            );
            assert!(longer.starts_with(&serde_json::from_str::<String>(&kept).unwrap()));
        }
    }

    #[test]
    fn clipping_never_splits_a_character() {
        assert_eq!(clip("aé", 2), "a");
        assert_eq!(clip("aé", 3), "aé");
    }
}
