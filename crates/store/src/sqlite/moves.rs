//! The moves: one guarded statement for each event. Whether a task moves is decided by the statement alone; what
//! is read before it serves the account and the history.

use super::{
    insert::slot,
    ledger::{Ledger, Slot},
    row,
    statements::{self, sql},
};
use crate::{extras, known};
use punctual_contract::store::{Applied, Change, EndedAttempt, LeaseFacts, Step, Stepped};
use punctual_domain::{
    history::{self, Note, SplitLine},
    name::{Name, QueueKey},
    state::{Event, State},
    task::{Content, NewTask, Priority, TaskResult},
    time::Millis,
};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Statement, params};
use std::borrow::Cow;

pub(crate) fn apply(
    conn: &Connection,
    ledger: &mut Ledger,
    steps: &[Step],
    now: Millis,
) -> rusqlite::Result<Vec<Stepped>> {
    let mut moves = Moves::prepare(conn, now)?;
    steps.iter().map(|step| moves.step(ledger, step)).collect()
}

/// The state of a task before it moves.
pub(crate) struct Spot {
    pub(crate) slot: Slot,
    pub(crate) state: State,
    due_at: Millis,
    execute_at: Millis,
    /// True if the task's payload is in `body`.
    long: bool,
    /// The size of the payload, if it is not in `body`.
    bytes: Option<i64>,
    /// The attempt, if the task has one.
    attempt: Option<EndedAttempt>,
}

/// The moves of one job.
pub(crate) struct Moves<'c> {
    conn: &'c Connection,
    pub(crate) now: Millis,
    at: CachedStatement<'c>,
    statements: Vec<(Event, CachedStatement<'c>)>,
    /// The last history line: the steps of a batch mostly share it.
    line: Option<(Event, Note, SplitLine)>,
}

impl<'c> Moves<'c> {
    pub(crate) fn prepare(conn: &'c Connection, now: Millis) -> rusqlite::Result<Self> {
        let at = conn.prepare_cached(sql!(moves, read_place))?;
        Ok(Self { conn, now, at, statements: Vec::with_capacity(2), line: None })
    }

    fn step(&mut self, ledger: &mut Ledger, step: &Step) -> rusqlite::Result<Stepped> {
        let (id, event) = (step.place.id, step.change.event());
        if let Some(lease) = known::of_step(step)
            && self.succeeds_as_known(ledger, step, lease)?
        {
            return Ok(Stepped { applied: Applied::Moved, attempt: Some(lease.ended()) });
        }
        let Some(spot) = self.spot(ledger, id)? else { return Ok(Stepped::LOST) };
        let now = self.now;
        let note = noted(step, &spot, now);
        let statement = self.bound(event, id, step.fence, &note)?;
        bind(statement, &not_in_the_past(&step.change, now), (note.error.as_deref(), step.fired_at), None)?;
        if statement.raw_execute()? == 0 {
            return Ok(Stepped::LOST);
        }
        let new_payload = step.change.payload();
        let slot =
            step.change.queue().map_or(spot.slot, |queue| ledger.slot_beside(spot.slot, queue.as_str()));
        let is_counted = new_payload.is_some()
            || slot != spot.slot
            || spot.state.is_pending() != event.target().is_pending();
        let bytes = if is_counted { self.bytes(id, &spot)? } else { 0 };
        ledger.moved((spot.slot, spot.state), (slot, event.target()), bytes);
        if let Some(payload) = new_payload {
            self.keep_body(id, payload, spot.long)?;
            ledger.resized(slot, event.target(), row::size(payload) - bytes);
        }
        Ok(Stepped { applied: Applied::Moved, attempt: spot.attempt })
    }

    /// Writes a success without a read of the row. Returns false if the row differs from the facts; nothing is done
    /// then.
    fn succeeds_as_known(
        &mut self,
        ledger: &mut Ledger,
        step: &Step,
        lease: &LeaseFacts,
    ) -> rusqlite::Result<bool> {
        let statement = self.bound(Event::Succeed, step.place.id, step.fence, &step.note)?;
        bind(statement, &step.change, (None, step.fired_at), Some(LeaseFacts::STATE))?;
        if statement.raw_execute()? == 0 {
            return Ok(false);
        }
        let slot = ledger.slot(lease.queue.namespace.as_str(), lease.queue.queue.as_str());
        // Neither waits.
        ledger.moved((slot, LeaseFacts::STATE), (slot, Event::Succeed.target()), 0);
        Ok(true)
    }

    fn spot(&mut self, ledger: &mut Ledger, id: i64) -> rusqlite::Result<Option<Spot>> {
        let spot = |row: &rusqlite::Row<'_>| {
            let (namespace, queue) = (row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?);
            let (slot, state) = (ledger.slot(namespace, queue), row::state(row, 2)?);
            let (due_at, execute_at) = (row::millis(row, 3)?, row::millis(row, 4)?);
            let attempt = state.is_in_flight().then(|| attempt(row)).transpose()?;
            Ok(Spot { slot, state, due_at, execute_at, long: row.get(5)?, bytes: row.get(6)?, attempt })
        };
        self.at.query_row([id], spot).optional()
    }

    /// The statement of an event, with the parameters bound that all of them share.
    pub(crate) fn bound(
        &mut self,
        event: Event,
        id: i64,
        fence: Option<i64>,
        note: &Note,
    ) -> rusqlite::Result<&mut Statement<'c>> {
        let known = self.statements.iter().position(|statement| statement.0 == event);
        let at = known.unwrap_or(self.statements.len());
        if known.is_none() {
            self.statements.push((event, self.conn.prepare_cached(statements::of_event(event))?));
        }
        let line = match &mut self.line {
            Some((of, like, line)) if *of == event && *like == *note => line,
            line => {
                let new = history::line(self.now, Some(event), note);
                &mut line.insert((event, note.clone(), new)).2
            }
        };
        let (_, statement) = self.statements.get_mut(at).expect("it was found or pushed just now");
        statement.raw_bind_parameter(1, id)?;
        statement.raw_bind_parameter(2, fence)?;
        statement.raw_bind_parameter(3, self.now.0)?;
        statement.raw_bind_parameter(4, line.head.as_str())?;
        statement.raw_bind_parameter(5, line.tail.as_str())?;
        Ok(statement)
    }

    /// The move that only an insert makes. False if it was not in a state that may be replaced.
    pub(crate) fn replace(
        &mut self,
        ledger: &mut Ledger,
        id: i64,
        ask: &NewTask,
        note: &Note,
    ) -> rusqlite::Result<bool> {
        let Some(spot) = self.spot(ledger, id)? else { return Ok(false) };
        let statement = self.bound(Event::Replace, id, None, note)?;
        bind_ask(statement, ask, note.due_at.unwrap_or(ask.execute_at))?;
        if statement.raw_execute()? == 0 {
            return Ok(false);
        }
        let bytes = self.bytes(id, &spot)?;
        self.keep_body(id, &ask.payload, spot.long)?;
        let target = (slot(ledger, ask), Event::Replace.target());
        ledger.moved((spot.slot, spot.state), target, bytes);
        ledger.resized(target.0, target.1, row::size(&ask.payload) - bytes);
        Ok(true)
    }

    /// The size of the payload.
    fn bytes(&self, id: i64, spot: &Spot) -> rusqlite::Result<i64> {
        match spot.bytes {
            Some(bytes) => Ok(bytes),
            None => {
                let length = self
                    .conn
                    .prepare_cached(sql!(ledger, read_body_bytes))?
                    .query_row([id], |value| value.get(0));
                Ok(length.optional()?.unwrap_or(0))
            }
        }
    }

    fn keep_body(&self, id: i64, payload: &Content, was_long: bool) -> rusqlite::Result<()> {
        if row::inline(payload).is_none() {
            self.conn.prepare_cached(sql!(insert, insert_body))?.execute(params![id, payload.bytes])?;
        } else if was_long {
            self.conn.prepare_cached(sql!(insert, delete_body))?.execute([id])?;
        }
        Ok(())
    }
}

/// Reads the attempt from columns of `read_place` in moves.sql.
fn attempt(row: &rusqlite::Row<'_>) -> rusqlite::Result<EndedAttempt> {
    let queue: QueueKey = row::queue_key(row, 0, 1)?;
    Ok(EndedAttempt { queue, leased_since: row::millis(row, 7)?, traceparent: row.get(8)? })
}

/// The note of a step, with the due time where it is the store that knows it.
fn noted<'s>(step: &'s Step, spot: &Spot, now: Millis) -> Cow<'s, Note> {
    let due_at = match &step.change {
        Change::Unblock => spot.execute_at.max(now),
        Change::Reschedule { execute_at, .. } => {
            execute_at.map_or(spot.due_at, |execute_at| execute_at.max(now))
        }
        Change::Redrive { execute_at } => (*execute_at).max(now),
        _ => return Cow::Borrowed(&step.note),
    };
    Cow::Owned(Note { due_at: Some(due_at), ..step.note.clone() })
}

/// The next attempt of a task is due no earlier than now: an outcome from a journal may be old.
fn not_in_the_past(change: &Change, now: Millis) -> Cow<'_, Change> {
    match change {
        Change::Retry { due_at, result } if *due_at < now => {
            Cow::Owned(Change::Retry { due_at: now, result: result.clone() })
        }
        Change::Snooze { due_at } if *due_at < now => Cow::Owned(Change::Snooze { due_at: now }),
        _ => Cow::Borrowed(change),
    }
}

/// The parameters from the sixth on. `state`: that a row has to be in from which a success leads, or `None` means any
/// from which it may.
fn bind(
    to: &mut Statement<'_>,
    change: &Change,
    (error, fired_at): (Option<&str>, Option<Millis>),
    state: Option<State>,
) -> rusqlite::Result<()> {
    let (error, fired_at) = (error.map(history::error), fired_at.map(|fired_at| fired_at.0));
    let error = error.as_deref();
    match change {
        Change::Unblock
        | Change::Claim
        | Change::Reclaim
        | Change::HandBack
        | Change::Release
        | Change::Start => Ok(()),
        Change::Fire { fired_at: at }
        | Change::Snooze { due_at: at }
        | Change::Cancel { keep_until: at }
        | Change::Withdraw { keep_until: at }
        | Change::Redrive { execute_at: at }
        | Change::Retire { keep_until: at } => to.raw_bind_parameter(6, at.0),
        Change::FailDispatch => to.raw_bind_parameter(6, error),
        Change::Expire { keep_until } | Change::DeadLetter { keep_until } => {
            to.raw_bind_parameter(6, keep_until.0)?;
            to.raw_bind_parameter(7, error)
        }
        Change::Abort { keep_until } => {
            to.raw_bind_parameter(6, keep_until.0)?;
            to.raw_bind_parameter(7, error)?;
            to.raw_bind_parameter(8, fired_at)
        }
        Change::Succeed { result, keep_until } => {
            to.raw_bind_parameter(6, keep_until.0)?;
            bind_result(to, Some(result))?;
            to.raw_bind_parameter(11, fired_at)?;
            to.raw_bind_parameter(12, state.map(State::code))
        }
        Change::Retry { due_at: at, result } => {
            to.raw_bind_parameter(6, at.0)?;
            bind_result(to, result.as_ref())?;
            to.raw_bind_parameter(11, error)
        }
        Change::Bury { keep_until: at, result } => {
            to.raw_bind_parameter(6, at.0)?;
            bind_result(to, result.as_ref())?;
            to.raw_bind_parameter(11, error)?;
            to.raw_bind_parameter(12, fired_at)
        }
        Change::Amend { max_attempts, priority, payload, timeout_ms, retry } => {
            to.raw_bind_parameter(6, *max_attempts)?;
            to.raw_bind_parameter(7, priority.map(Priority::level))?;
            to.raw_bind_parameter(8, payload.as_ref().map(Content::code))?;
            to.raw_bind_parameter(9, payload.as_ref().and_then(row::inline))?;
            to.raw_bind_parameter(10, *timeout_ms)?;
            to.raw_bind_parameter(11, retry.is_some())?;
            to.raw_bind_parameter(12, retry.as_ref().and_then(row::retry_text))
        }
        Change::Reschedule { execute_at, priority, payload, queue } => {
            to.raw_bind_parameter(6, execute_at.map(|execute_at| execute_at.0))?;
            to.raw_bind_parameter(7, priority.map(Priority::level))?;
            to.raw_bind_parameter(8, payload.as_ref().map(Content::code))?;
            to.raw_bind_parameter(9, payload.as_ref().and_then(row::inline))?;
            to.raw_bind_parameter(10, queue.as_ref().map(Name::as_str))
        }
    }
}

fn bind_result(to: &mut Statement<'_>, result: Option<&TaskResult>) -> rusqlite::Result<()> {
    let content = result.and_then(|result| result.content.as_ref());
    to.raw_bind_parameter(7, result.map(|result| result.status_code))?;
    to.raw_bind_parameter(8, result.map(|result| result.status_msg.as_str()))?;
    to.raw_bind_parameter(9, content.map(Content::code))?;
    to.raw_bind_parameter(10, content.map(|content| content.bytes.as_slice()))
}

fn bind_ask(to: &mut Statement<'_>, ask: &NewTask, due_at: Millis) -> rusqlite::Result<()> {
    to.raw_bind_parameter(6, ask.queue.queue.as_str())?;
    to.raw_bind_parameter(7, ask.kind.as_str())?;
    to.raw_bind_parameter(8, ask.priority.level())?;
    to.raw_bind_parameter(9, ask.max_attempts)?;
    to.raw_bind_parameter(10, ask.execute_at.0)?;
    to.raw_bind_parameter(11, due_at.0)?;
    to.raw_bind_parameter(12, ask.timeout_ms)?;
    to.raw_bind_parameter(13, ask.deadline_ms)?;
    to.raw_bind_parameter(14, row::retry_text(&ask.retry))?;
    to.raw_bind_parameter(15, row::labels_text(&ask.labels))?;
    to.raw_bind_parameter(16, ask.traceparent.as_deref())?;
    to.raw_bind_parameter(17, ask.payload.code())?;
    to.raw_bind_parameter(18, row::inline(&ask.payload))?;
    to.raw_bind_parameter(19, extras::text(ask))
}
