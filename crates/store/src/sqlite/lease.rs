//! Leases: handing tasks over, heartbeats, requests to stop. A lease never outlives the task's `timeout_ms`.

use super::{
    ledger::{Ledger, Slot},
    moves::Moves,
    row,
    settings::Paused,
    statements::sql,
};
use crate::known;
use punctual_contract::store::{Applied, Assignment, Beat, Dispatched, Extended, Grant};
use punctual_domain::{
    history::{self, Note},
    name::QueueKey,
    place::{Partition, TaskRef},
    state::{Event, State},
    time::Millis,
};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Row, params};

pub(crate) fn dispatch(
    conn: &Connection,
    ledger: &mut Ledger,
    grants: &[Grant],
    now: Millis,
) -> rusqlite::Result<Vec<Dispatched>> {
    let paused = Paused::read(conn)?;
    let mut read = conn.prepare_cached(sql!(lease, read_for_grant))?;
    let mut moves = Moves::prepare(conn, now)?;
    let mut note = Note::default();
    let mut one = |grant: &Grant| {
        // A row that is not as it is said to be is looked at, and so is one whose queue is paused.
        if let Some(facts) = known::of_grant(grant)
            && let (namespace, queue) = (facts.queue.namespace.as_str(), facts.queue.queue.as_str())
            && (grant.has_begun || !paused.has(namespace, queue))
        {
            let (since, until) = term(grant, now, facts.ask.timeout_ms);
            let assignment = known::assigned(grant, facts, since, until);
            if hand_over(&mut moves, &mut note, grant, (&assignment, facts.state))? {
                let slot = ledger.slot(namespace, queue);
                let to = (slot, Event::Dispatch.target());
                ledger.moved((slot, facts.state), to, row::size(&assignment.payload));
                return Ok(Dispatched::Made(assignment));
            }
        }
        let assigned = |row: &Row<'_>| {
            let is_paused = paused.has(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?);
            if is_paused && !grant.has_begun { Ok(None) } else { assigned(row, ledger, grant, now).map(Some) }
        };
        let (assignment, from) = match read.query_row([grant.place.id, grant.fence], assigned).optional()? {
            Some(Some(optional)) => optional,
            Some(None) => return Ok(Dispatched::Paused),
            None => return Ok(Dispatched::Lost),
        };
        if !hand_over(&mut moves, &mut note, grant, (&assignment, from.1))? {
            return Ok(Dispatched::Lost);
        }
        ledger.moved(from, (from.0, Event::Dispatch.target()), row::size(&assignment.payload));
        Ok(Dispatched::Made(assignment))
    };
    grants.iter().map(&mut one).collect()
}

/// False if the row is not in this state, or has another fence.
fn hand_over(
    moves: &mut Moves<'_>,
    note: &mut Note,
    grant: &Grant,
    (assignment, from): (&Assignment, State),
) -> rusqlite::Result<bool> {
    note.by.clone_from(&grant.executor);
    let is_ahead = assignment.leased_since > moves.now;
    let statement = moves.bound(Event::Dispatch, grant.place.id, Some(grant.fence), note)?;
    statement.raw_bind_parameter(6, grant.fired_at.0)?;
    statement.raw_bind_parameter(7, grant.executor.as_str())?;
    statement.raw_bind_parameter(8, assignment.lease_until.0)?;
    statement.raw_bind_parameter(9, assignment.leased_since.0)?;
    statement.raw_bind_parameter(10, from.code())?;
    if is_ahead {
        // What is leased ahead begins when it fires, and its line says so.
        let line = history::line(grant.fired_at, Some(Event::Dispatch), note);
        statement.raw_bind_parameter(4, line.head)?;
    }
    Ok(statement.raw_execute()? == 1)
}

/// The row of a grant, as it will be after the move, and where it is now.
fn assigned(
    row: &Row<'_>,
    ledger: &mut Ledger,
    grant: &Grant,
    now: Millis,
) -> rusqlite::Result<(Assignment, (Slot, State))> {
    let from = (ledger.slot(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?), row::state(row, 2)?);
    let (fence, attempt): (i64, u32) = (row.get(5)?, row.get(6)?);
    let timeout_ms = row.get(12)?;
    let (leased_since, lease_until) = term(grant, now, timeout_ms);
    let assignment = Assignment {
        place: TaskRef {
            partition: Partition(row.get(14)?),
            due_at: row::millis(row, 15)?,
            id: grant.place.id,
        },
        queue: QueueKey { namespace: row::name(row, 0)?, queue: row::name(row, 1)? },
        task_id: row.get(3)?,
        task_version: row.get(4)?,
        fence: fence + 1,
        attempt: attempt + 1,
        max_attempts: row.get(16)?,
        kind: row::name(row, 7)?,
        priority: row::priority(row, 8)?,
        payload: row::content(row, 9, 10)?,
        execute_at: row::millis(row, 18)?,
        due_at: row::millis(row, 11)?,
        fired_at: grant.fired_at,
        leased_since,
        lease_until,
        timeout_ms,
        labels: row::labels(row, 17)?,
        traceparent: row.get(13)?,
    };
    Ok((assignment, from))
}

/// The beginning of the attempt, and the end of its lease.
fn term(grant: &Grant, now: Millis, timeout_ms: Option<i64>) -> (Millis, Millis) {
    let since = now.max(grant.fired_at);
    (since, bounded(grant.lease_until, since, timeout_ms))
}

/// The asked end of a lease, but no later than the attempt may last.
fn bounded(asked: Millis, since: Millis, timeout_ms: Option<i64>) -> Millis {
    timeout_ms.map_or(asked, |timeout_ms| asked.min(since.plus(timeout_ms)))
}

pub(crate) fn extend(
    conn: &Connection,
    ledger: &mut Ledger,
    beats: &[Beat],
    now: Millis,
) -> rusqlite::Result<Vec<Extended>> {
    let mut leases = Leases {
        now,
        held: conn.prepare_cached(sql!(lease, read_held))?,
        extend: conn.prepare_cached(sql!(lease, extend))?,
        fired: conn.prepare_cached(sql!(lease, set_fired_at))?,
        log: conn.prepare_cached(sql!(lease, append_log))?,
        moves: Moves::prepare(conn, now)?,
    };
    beats.iter().map(|beat| leases.beat(ledger, beat)).collect()
}

struct Leases<'c> {
    now: Millis,
    held: CachedStatement<'c>,
    extend: CachedStatement<'c>,
    fired: CachedStatement<'c>,
    log: CachedStatement<'c>,
    moves: Moves<'c>,
}

struct HeldRow {
    slot: Slot,
    state: State,
    since: Millis,
    until: Millis,
    timeout_ms: Option<i64>,
    cancel_requested: bool,
}

impl Leases<'_> {
    fn beat(&mut self, ledger: &mut Ledger, beat: &Beat) -> rusqlite::Result<Extended> {
        let (id, fence) = (beat.place.id, beat.fence);
        let held = |row: &Row<'_>| held(row, ledger);
        let Some(optional) = self.held.query_row(params![id, fence, self.now.0], held).optional()? else {
            if let Some(fired_at) = beat.handed_over_at {
                self.fired.execute(params![id, fence, fired_at.0])?;
            }
            return Ok(Extended::Lost);
        };
        // What is reported late does not revoke what the executor's own heartbeat has got.
        let lease_until = match beat.handed_over_at {
            Some(_) if optional.state != State::Dispatched => optional.until,
            _ => bounded(beat.lease_until, optional.since, optional.timeout_ms),
        };
        let executor = beat.handed_over_at.map(|_| beat.executor.as_str());
        let fired_at = beat.handed_over_at.map(|handed_over_at| handed_over_at.0);
        self.extend.execute(params![
            id,
            fence,
            self.now.0,
            lease_until.0,
            beat.progress,
            executor,
            fired_at
        ])?;
        if beat.log.is_some() {
            self.log.execute(params![id, fence, beat.log])?;
        }
        let has_begun = optional.state == State::Dispatched && beat.handed_over_at.is_none();
        if has_begun {
            let note = Note { by: beat.executor.clone(), ..Note::default() };
            if self.moves.bound(Event::Start, id, Some(fence), &note)?.raw_execute()? == 1 {
                // Neither waits.
                ledger.moved((optional.slot, optional.state), (optional.slot, Event::Start.target()), 0);
            }
        }
        Ok(Extended::Held { lease_until, cancel_requested: optional.cancel_requested, has_begun })
    }
}

fn held(row: &Row<'_>, ledger: &mut Ledger) -> rusqlite::Result<HeldRow> {
    Ok(HeldRow {
        slot: ledger.slot(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?),
        state: row::state(row, 2)?,
        since: row::millis(row, 3)?,
        timeout_ms: row.get(4)?,
        cancel_requested: row.get(5)?,
        until: row::millis(row, 6)?,
    })
}

pub(crate) fn request_stop(conn: &Connection, place: TaskRef, now: Millis) -> rusqlite::Result<Applied> {
    let marked = conn.prepare_cached(sql!(lease, request_stop))?.execute([place.id, now.0])?;
    Ok(if marked == 0 { Applied::Lost } else { Applied::Moved })
}
