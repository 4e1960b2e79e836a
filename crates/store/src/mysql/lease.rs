//! Leases: handing tasks over, heartbeats, requests to stop. A lease never outlives the task's `timeout_ms`.

use super::{
    lease_ends::{self, Ends},
    ledger::Ledger,
    moves::{From, Moves},
    parameters::Rows,
    pauses::Pauses,
    place::{self, Spotted},
    row,
    statements::sql,
    trips::Trips,
};
use crate::known;
use punctual_contract::store::{Applied, Assignment, Beat, Dispatched, Extended, Facts, Grant};
use punctual_domain::{
    history::Note,
    name::QueueKey,
    place::TaskRef,
    state::{Event, State},
    time::Millis,
};
use sqlx::{MySqlConnection, Row as _};

pub(crate) async fn dispatch(
    conn: &mut MySqlConnection,
    trips: &mut Trips,
    ledger: &mut Ledger,
    pauses: &Pauses,
    (grants, rests_on_facts): (&[Grant], bool),
    now: Millis,
) -> sqlx::Result<Vec<Dispatched>> {
    let mut dispatched: Vec<Dispatched> = grants.iter().map(|_| Dispatched::Lost).collect();
    let mut ends = Ends::default();
    for round in place::rounds(grants.iter().map(|grant| grant.place.id)) {
        let mut desk = Desk { ledger, pauses, now };
        let mut given: Vec<(usize, From, Assignment)> = Vec::with_capacity(round.len());
        let mut take = |nth: usize, granted: Granted| match granted {
            Granted::Given(from, lease) => given.push((nth, from, lease)),
            Granted::Refused(why) => {
                dispatched.get_mut(nth).into_iter().for_each(|dispatched| *dispatched = why.clone())
            }
        };
        let facts = |nth: usize| {
            let grant = grants.get(nth).filter(|_| rests_on_facts)?;
            Some((grant, known::of_grant(grant)?))
        };
        let (known, sought): (Vec<usize>, Vec<usize>) = round.iter().partition(|nth| facts(**nth).is_some());
        for nth in known.iter().copied() {
            if let Some((grant, facts)) = facts(nth) {
                take(nth, desk.known(grant, facts));
            }
        }
        let places: Vec<TaskRef> =
            sought.iter().filter_map(|nth| grants.get(*nth)).map(|grant| grant.place).collect();
        let found = place::find_ahead(conn, trips, sql!(lease, lock_for_grant), &places).await?;
        let are_unseen = found.are_unlocked || !known.is_empty();
        for (nth, spotted) in sought.iter().zip(found.rows) {
            if let (Some(grant), Some(each_spotted)) = (grants.get(*nth), spotted) {
                take(*nth, desk.granted(&each_spotted, grant)?);
            }
        }
        given.sort_unstable_by_key(|row| row.1.place);
        let mut moves = if are_unseen { Moves::unseen(now) } else { Moves::new(now) };
        let mut note = Note::default();
        for (nth, from, assignment) in given {
            let Some(executor) = grants.get(nth).map(|grant| &grant.executor) else { continue };
            note.by.clone_from(executor);
            let row = moves.fired_row(assignment.fired_at, from, i64::from(assignment.attempt), &note);
            row.text(executor).at(assignment.lease_until);
            moves.send_if_long(conn, Event::Dispatch).await?;
            ends.add(from.place, assignment.fence, assignment.lease_until);
            if let Some(answer) = dispatched.get_mut(nth) {
                *answer = Dispatched::Made(assignment);
            }
        }
        moves.finish(conn).await?;
    }
    lease_ends::keep_at_last(trips, ends);
    Ok(dispatched)
}

/// The row of a grant: as it is, and as it will be after the move.
enum Granted {
    Given(From, Assignment),
    Refused(Dispatched),
}

/// Decides if a grant is given, and maintains the account of it.
struct Desk<'a> {
    ledger: &'a mut Ledger,
    pauses: &'a Pauses,
    now: Millis,
}

impl Desk<'_> {
    /// `bytes`: of its payload.
    fn may_have(&mut self, grant: &Grant, queue: &QueueKey, state: State, bytes: i64) -> bool {
        if self.pauses.has(queue) && !grant.has_begun {
            return false;
        }
        let target = Some(Event::Dispatch.target());
        let names = (queue.namespace.as_str(), queue.queue.as_str());
        self.ledger.moved(names, Some(state), target, bytes);
        true
    }

    /// The beginning of the attempt, and the end of its lease.
    fn term(&self, grant: &Grant, timeout_ms: Option<i64>) -> (Millis, Millis) {
        let since = self.now.max(grant.fired_at);
        (since, bounded(grant.lease_until, since, timeout_ms))
    }

    fn known(&mut self, grant: &Grant, facts: &Facts) -> Granted {
        if !self.may_have(grant, &facts.queue, facts.state, row::size(&facts.ask.payload)) {
            return Granted::Refused(Dispatched::Paused);
        }
        let (since, until) = self.term(grant, facts.ask.timeout_ms);
        let from = From { place: grant.place, fence: grant.fence, state: facts.state };
        Granted::Given(from, known::assigned(grant, facts, since, until))
    }

    /// Columns of `lock_for_grant` in lease.sql.
    fn granted(&mut self, spotted: &Spotted, grant: &Grant) -> sqlx::Result<Granted> {
        let Spotted { place, row } = spotted;
        let (state, fence): (State, i64) = (row::state(row, 4)?, row.try_get(5)?);
        if fence != grant.fence || state.after(Event::Dispatch).is_err() {
            return Ok(Granted::Refused(Dispatched::Lost));
        }
        let queue = row::queue_key(row, 2, 3)?;
        let payload = row::content(row, 12, 13)?;
        if !self.may_have(grant, &queue, state, row::size(&payload)) {
            return Ok(Granted::Refused(Dispatched::Paused));
        }
        let timeout_ms: Option<i64> = row.try_get(14)?;
        let (leased_since, lease_until) = self.term(grant, timeout_ms);
        let assignment = Assignment {
            place: TaskRef { due_at: row::millis(row, 16)?, ..*place },
            queue,
            task_id: row.try_get(7)?,
            task_version: row.try_get(8)?,
            fence: fence + 1,
            attempt: row::small::<u32>(row, 6)? + 1,
            max_attempts: row::small(row, 9)?,
            kind: row::name(row, 10)?,
            priority: row::priority(row, 11)?,
            payload,
            execute_at: row::millis(row, 18)?,
            due_at: place.due_at,
            fired_at: grant.fired_at,
            leased_since,
            lease_until,
            timeout_ms,
            labels: row::labels(row, 17)?,
            traceparent: row.try_get(15)?,
        };
        Ok(Granted::Given(From { place: *place, fence, state }, assignment))
    }
}

/// The asked end of a lease, but no later than the attempt may last.
fn bounded(asked: Millis, since: Millis, timeout_ms: Option<i64>) -> Millis {
    timeout_ms.map_or(asked, |timeout_ms| asked.min(since.plus(timeout_ms)))
}

pub(crate) async fn extend(
    conn: &mut MySqlConnection,
    trips: &mut Trips,
    ledger: &mut Ledger,
    beats: &[Beat],
    now: Millis,
) -> sqlx::Result<Vec<Extended>> {
    let mut extended = vec![Extended::Lost; beats.len()];
    let mut ends = Ends::default();
    for round in place::rounds(beats.iter().map(|beat| beat.place.id)) {
        let places: Vec<TaskRef> =
            round.iter().filter_map(|nth| beats.get(*nth)).map(|beat| beat.place).collect();
        let found = place::find(conn, sql!(lease, lock_held), &places).await?;
        let moves = Moves::new(now);
        let (rows, said, fired) = (Rows::default(), Rows::default(), Rows::default());
        let mut signs = Signs { now, rows, said, fired, moves };
        for (nth, spotted) in round.iter().zip(found.rows) {
            let (Some(beat), Some(each_spotted), Some(answer)) =
                (beats.get(*nth), spotted, extended.get_mut(*nth))
            else {
                continue;
            };
            *answer = signs.sign(ledger, &mut ends, beat, &each_spotted)?;
        }
        signs.finish(conn).await?;
    }
    lease_ends::keep_at_last(trips, ends);
    Ok(extended)
}

/// The heartbeats of one round.
struct Signs {
    now: Millis,
    rows: Rows,
    said: Rows,
    /// The rows of attempts that were over before they were reported to the store.
    fired: Rows,
    moves: Moves,
}

impl Signs {
    /// Columns of `lock_held` in lease.sql.
    fn sign(
        &mut self,
        ledger: &mut Ledger,
        ends: &mut Ends,
        beat: &Beat,
        spotted: &Spotted,
    ) -> sqlx::Result<Extended> {
        let Spotted { place, row } = spotted;
        let (state, fence): (State, i64) = (row::state(row, 4)?, row.try_get(5)?);
        let until = row.try_get::<Option<i64>, _>(8)?.map(Millis).filter(|at| *at > self.now);
        let Some(until) = until.filter(|_| state.is_in_flight() && fence == beat.fence) else {
            let known = row.try_get::<Option<i64>, _>(11)?.map(Millis);
            let reported = beat
                .handed_over_at
                .filter(|handed_over_at| state.is_finished() && known != Some(*handed_over_at));
            if let Some(fired_at) = reported.filter(|_| fence == beat.fence) {
                self.fired.row(*place).int(fence).at(fired_at);
            }
            return Ok(Extended::Lost);
        };
        // What is reported late does not revoke what the executor's own heartbeat has got.
        let lease_until = match beat.handed_over_at {
            Some(_) if state != State::Dispatched => until,
            _ => bounded(beat.lease_until, row::millis(row, 7)?, row.try_get(9)?),
        };
        if lease_until < until {
            // The batch that has it would be looked at too late.
            ends.add(*place, fence, lease_until);
        }
        let has_begun = beat.handed_over_at.is_none() && state == State::Dispatched;
        if has_begun {
            let note = Note { by: beat.executor.clone(), ..Note::default() };
            let (namespace, queue): (&str, &str) = (row.try_get(2)?, row.try_get(3)?);
            // Neither waits.
            ledger.moved((namespace, queue), Some(state), Some(Event::Start.target()), 0);
            let from = From { place: *place, fence, state };
            let rows = self.moves.row(Event::Start, from, row.try_get(6)?, &note);
            rows.at(lease_until).maybe_text(beat.progress.as_deref());
        } else {
            let executor = beat.handed_over_at.map(|_| beat.executor.as_str());
            let rows = self.rows.row(*place).int(fence).at(lease_until).maybe_text(beat.progress.as_deref());
            rows.maybe_text(executor).maybe_int(beat.handed_over_at.map(|handed_over_at| handed_over_at.0));
        }
        if let Some(said) = &beat.log {
            self.said.row(*place).int(fence).text(said);
        }
        Ok(Extended::Held { lease_until, cancel_requested: row.try_get(10)?, has_begun })
    }

    async fn finish(self, conn: &mut MySqlConnection) -> sqlx::Result<()> {
        if self.rows.len() > 0 {
            sqlx::query(sql!(lease, extend))
                .bind(self.rows.json())
                .bind(self.now.0)
                .execute(&mut *conn)
                .await?;
        }
        self.moves.finish(&mut *conn).await?;
        if self.fired.len() > 0 {
            sqlx::query(sql!(lease, set_fired_at)).bind(self.fired.json()).execute(&mut *conn).await?;
        }
        if self.said.len() > 0 {
            sqlx::query(sql!(lease, append_log)).bind(self.said.json()).execute(conn).await?;
        }
        Ok(())
    }
}

pub(crate) async fn request_stop(
    conn: &mut MySqlConnection,
    place: TaskRef,
    now: Millis,
) -> sqlx::Result<Applied> {
    let found = place::find(conn, sql!(lease, lock_held), &[place]).await?;
    let Some(spotted) = found.rows.into_iter().flatten().next() else { return Ok(Applied::Lost) };
    stop(conn, spotted.place, now).await
}

/// `place`: where its row is now.
pub(crate) async fn stop(conn: &mut MySqlConnection, place: TaskRef, now: Millis) -> sqlx::Result<Applied> {
    let partition = row::partition_no(place.partition);
    let stop = sqlx::query(sql!(lease, request_stop))
        .bind(now.0)
        .bind(partition)
        .bind(place.due_at.0)
        .bind(place.id);
    let marked = stop.execute(conn).await?.rows_affected();
    Ok(if marked == 0 { Applied::Lost } else { Applied::Moved })
}
