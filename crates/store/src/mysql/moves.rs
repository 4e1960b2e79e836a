//! The moves: one guarded statement for each event, over any number of rows. The rows are locked first; whether one
//! moves is decided by `domain::state` from what the lock holds, and the statement's own guard must agree with it. Where
//! what a row is was said with the call (`known`) or read without a lock, that guard is all there is: it names state and fence,
//! and if one row is otherwise, the transaction is undone and begun again with a lock.

use super::{
    alike,
    labels::declared::labels_of,
    ledger::Ledger,
    lookup,
    parameters::{One, ROWS_MAX, Rows},
    pauses::Pauses,
    place::{self, Spotted},
    retention::ahead,
    row,
    statements::sql,
    statements_moves,
    trips::Trips,
};
use crate::known;
use punctual_contract::store::{Applied, Change, EndedAttempt, LeaseFacts, Step, Stepped};
use punctual_domain::{
    history::{self, Note, SplitLine},
    name::{Name, QueueKey},
    place::TaskRef,
    state::{Event, State},
    task::{Content, Priority, TaskResult},
    time::Millis,
};
use sqlx::{MySqlConnection, Row as _, mysql::MySqlRow};
use std::{borrow::Cow, collections::BTreeMap};

/// The maximum length of a statement's parameter, in bytes: results can be long, and a packet is bounded.
const JSON_LEN_MAX: usize = 4 << 20;

pub(crate) async fn apply(
    conn: &mut MySqlConnection,
    trips: &mut Trips,
    ledger: &mut Ledger,
    pauses: &Pauses,
    (steps, rests_on_facts): (&[Step], bool),
    now: Millis,
) -> sqlx::Result<Vec<Stepped>> {
    let mut applied = vec![Stepped::LOST; steps.len()];
    let (mut unseen, mut looked_at) = (Vec::new(), Vec::new());
    for ((nth, step), applied) in steps.iter().enumerate().zip(&mut applied) {
        if let Some(lease) = known::of_step(step).filter(|_| rests_on_facts) {
            *applied = Stepped { applied: Applied::Moved, attempt: Some(lease.ended()) };
            unseen.push((step, lease));
        } else {
            looked_at.push((nth, step));
        }
    }
    succeed_unseen(conn, ledger, unseen, now).await?;
    for round in place::rounds(looked_at.iter().map(|pair| pair.1.place.id)) {
        let round: Vec<(usize, &Step)> =
            round.iter().filter_map(|number| looked_at.get(*number)).copied().collect();
        let steps: Vec<&Step> = round.iter().map(|pair| pair.1).collect();
        let moved = one_round(conn, trips, ledger, pauses, &steps, now).await?;
        for ((nth, _), moved) in round.iter().zip(moved) {
            if let Some(answer) = applied.get_mut(*nth) {
                *answer = moved;
            }
        }
    }
    Ok(applied)
}

/// Writes successes of leases that the callers know, without a read of them. `RowNotFound` states that one row
/// differs, and that the transaction has to be undone.
async fn succeed_unseen(
    conn: &mut MySqlConnection,
    ledger: &mut Ledger,
    mut unseen: Vec<(&Step, &LeaseFacts)>,
    now: Millis,
) -> sqlx::Result<()> {
    // In the order of the key, so that the updates walk the pages in their order.
    let place = |(step, lease): &(&Step, &LeaseFacts)| TaskRef { due_at: lease.due_at, ..step.place };
    unseen.sort_unstable_by_key(place);
    let mut moves = Moves::unseen(now);
    for (step, lease) in unseen {
        let (Change::Succeed { result, keep_until }, Some(fence)) = (&step.change, step.fence) else {
            return Err(sqlx::Error::RowNotFound);
        };
        let from = From { place: place(&(step, lease)), fence, state: LeaseFacts::STATE };
        let row = moves.row_of((Event::Succeed, step.fired_at), from, lease.attempt.into(), &step.note);
        values_of_result(row.at(*keep_until), Some(result));
        let QueueKey { namespace, queue } = &*lease.queue;
        let names = (namespace.as_str(), queue.as_str());
        // Neither waits.
        ledger.moved(names, Some(from.state), Some(Event::Succeed.target()), 0);
        moves.send_if_long(conn, Event::Succeed).await?;
    }
    moves.finish(conn).await
}

/// Steps of different tasks.
async fn one_round(
    conn: &mut MySqlConnection,
    trips: &mut Trips,
    ledger: &mut Ledger,
    pauses: &Pauses,
    steps: &[&Step],
    now: Millis,
) -> sqlx::Result<Vec<Stepped>> {
    let places: Vec<TaskRef> = steps.iter().map(|step| step.place).collect();
    let found = place::find_ahead(conn, trips, sql!(moves, lock_places), &places).await?;
    let mut moved = vec![Stepped::LOST; steps.len()];
    let mut moves = Moves::new(now);
    // In the order of the key, so that the updates walk the pages in their order.
    let mut order: Vec<(usize, Spot)> = Vec::with_capacity(steps.len());
    for (nth, spotted) in found.rows.iter().enumerate() {
        order.extend(spotted.as_ref().map(spot).transpose()?.map(|spot| (nth, spot)));
    }
    order.sort_unstable_by_key(|pair| pair.1.place);
    for (nth, spot) in order {
        let (Some(step), Some(moved)) = (steps.get(nth), moved.get_mut(nth)) else { continue };
        if spot.may(step.change.event(), step.fence) {
            if let Some(queue) = step.change.queue().filter(|queue| queue.as_str() != &*spot.queue) {
                moves.enter(conn, ledger, pauses, &spot, queue).await?;
            }
            moves.step(conn, ledger, &spot, step).await?;
            *moved = Stepped { applied: Applied::Moved, attempt: spot.ended };
        }
    }
    moves.finish(conn).await?;
    Ok(moved)
}

/// The place and state of a task before it moves: columns of `lock_places` in moves.sql.
struct Spot {
    place: TaskRef,
    namespace: Box<str>,
    queue: Box<str>,
    state: State,
    fence: i64,
    attempt: i64,
    execute_at: Millis,
    deadline_ms: Option<i64>,
    priority: i64,
    /// True if the task's payload is in `body`.
    long: bool,
    /// The size of the payload, if it is not in `body`.
    bytes: Option<i64>,
    /// The attempt, if the task has one.
    ended: Option<EndedAttempt>,
}

fn spot(spotted: &Spotted) -> sqlx::Result<Spot> {
    let Spotted { place, row } = spotted;
    let state = row::state(row, 4)?;
    Ok(Spot {
        place: *place,
        namespace: row.try_get::<&str, _>(2)?.into(),
        queue: row.try_get::<&str, _>(3)?.into(),
        state,
        fence: row.try_get(5)?,
        attempt: row.try_get(6)?,
        execute_at: row::millis(row, 7)?,
        deadline_ms: row.try_get(8)?,
        priority: row.try_get(9)?,
        long: row.try_get(10)?,
        bytes: row.try_get(11)?,
        ended: state.is_in_flight().then(|| attempt(row)).transpose()?,
    })
}

/// Reads the attempt from columns of `lock_places` in moves.sql.
fn attempt(row: &MySqlRow) -> sqlx::Result<EndedAttempt> {
    let (queue, leased_since) = (row::queue_key(row, 2, 3)?, row::millis(row, 12)?);
    Ok(EndedAttempt { queue, leased_since, traceparent: row.try_get(13)? })
}

impl Spot {
    fn may(&self, event: Event, fence: Option<i64>) -> bool {
        fence.is_none_or(|fence| fence == self.fence) && self.state.after(event).is_ok()
    }

    /// The due time after the change, if it differs.
    fn next_due_at(&self, change: &Change, now: Millis) -> Option<Millis> {
        match change {
            Change::Unblock => Some(self.execute_at.max(now)),
            Change::Reschedule { execute_at, .. } => {
                Some(execute_at.map_or(self.place.due_at, |execute_at| execute_at.max(now)))
            }
            Change::Redrive { execute_at } => Some((*execute_at).max(now)),
            // An outcome from a journal may be old; no row may appear behind a floor (`floor`).
            Change::Retry { due_at, .. } | Change::Snooze { due_at } => Some((*due_at).max(now)),
            _ => None,
        }
    }

    /// The deadline is an instant: counted from a new `execute_at`, it is another number.
    fn deadline_from(&self, execute_at: Millis) -> Option<i64> {
        self.deadline_ms.map(|deadline_ms| deadline_ms.saturating_sub(execute_at.since(self.execute_at)))
    }
}

/// The rows of one job, by the statement that moves them.
pub(crate) struct Moves {
    now: Millis,
    rows: BTreeMap<Event, Rows>,
    /// Rows whose place in the key changes.
    places: Vec<TaskRef>,
    /// The last history line: the steps of a batch mostly share it.
    line: Option<(Event, Note, SplitLine)>,
    /// The entries of tasks that die, that are finished long before they were due, or that change their queue.
    entries: lookup::Entries,
    /// The rows are locked, and are as their steps state.
    are_seen: bool,
}

impl Moves {
    /// Creates moves of rows that were read without locks, or not at all.
    pub(crate) fn unseen(now: Millis) -> Self {
        Self { are_seen: false, ..Self::new(now) }
    }

    pub(crate) fn new(now: Millis) -> Self {
        let (rows, places, entries) = (BTreeMap::new(), Vec::new(), lookup::Entries::default());
        Self { now, rows, places, line: None, entries, are_seen: true }
    }

    async fn step(
        &mut self,
        conn: &mut MySqlConnection,
        ledger: &mut Ledger,
        spot: &Spot,
        step: &Step,
    ) -> sqlx::Result<()> {
        let event = step.change.event();
        let due_at = spot.next_due_at(&step.change, self.now);
        let note = noted(step, due_at);
        let from = From { place: spot.place, fence: spot.fence, state: spot.state };
        let rows = self.row_of((event, step.fired_at), from, attempt_after(event, spot.attempt), &note);
        values(rows, &step.change, spot, due_at.unwrap_or_default(), note.error.as_deref());
        if let Some(due_at) = due_at.filter(|due_at| *due_at != spot.place.due_at) {
            self.places.push(TaskRef { due_at, ..spot.place });
        }
        if event.target() == State::Dead && spot.state != State::Dead {
            self.entries.dead(spot.place, &spot.namespace);
        }
        let kept = step.change.keep_until();
        if let Some(term) = kept.and_then(|until| ahead::term(spot.place.due_at, self.now, until)) {
            self.entries.over(spot.place, term);
        }
        let bytes = bytes(conn, spot, &step.change).await?;
        let queue = step.change.queue().map_or(&*spot.queue, Name::as_str);
        if let Some(payload) = step.change.payload() {
            keep_body(conn, spot, payload).await?;
            if event.target().is_pending() {
                ledger.resized(&spot.namespace, queue, row::size(payload) - bytes);
            }
        }
        if *queue == *spot.queue {
            ledger.moved((&spot.namespace, queue), Some(spot.state), Some(event.target()), bytes);
        } else {
            ledger.moved((&spot.namespace, &spot.queue), Some(spot.state), None, bytes);
            ledger.moved((&spot.namespace, queue), None, Some(event.target()), bytes);
        }
        self.send_if_long(conn, event).await
    }

    /// Updates the entries of a task that changes its queue: the new queue's labels apply.
    async fn enter(
        &mut self,
        conn: &mut MySqlConnection,
        ledger: &mut Ledger,
        pauses: &Pauses,
        spot: &Spot,
        queue: &Name,
    ) -> sqlx::Result<()> {
        let (partition, due_at) = (row::partition_no(spot.place.partition), spot.place.due_at.0);
        let labels = sqlx::query(sql!(moves, read_labels)).bind(partition).bind(due_at).bind(spot.place.id);
        let of_task = labels.fetch_one(&mut *conn).await?;
        let names = [&*spot.namespace, queue.as_str(), of_task.try_get(1)?];
        ledger.chunks.enter(names, spot.place.id);
        let labels = labels_of(&of_task, 0)?;
        if labels.is_empty() {
            return Ok(());
        }
        lookup::gone(conn, spot.place).await?;
        let namespace = Name::new(&spot.namespace).map_err(|error| row::odd(2, error))?;
        let queue = QueueKey { namespace, queue: queue.clone() };
        self.entries.labels(spot.place, &spot.namespace, pauses.labels_of(&queue), &labels);
        Ok(())
    }

    /// A row with the values that all moves share: place, fence, history line.
    pub(crate) fn row(&mut self, event: Event, from: From, attempt: i64, note: &Note) -> &mut One {
        self.row_of((event, None), from, attempt, note)
    }

    /// The same; the last move of a task also says when its attempt fired, or that this is known.
    fn row_of(
        &mut self,
        (event, fired_at): (Event, Option<Millis>),
        from: From,
        attempt: i64,
        note: &Note,
    ) -> &mut One {
        let line = self.line(event, from, attempt, note);
        let row = self.rows.entry(event).or_default().row(from.place);
        row.guard(from.state.code().into(), from.fence).int(from.fence);
        if matches!(event, Event::Succeed | Event::Bury | Event::Abort) {
            row.maybe_int(fired_at.map(|fired_at| fired_at.0));
        }
        row.mark().text(&line)
    }

    /// The same for a dispatch, which has an instant of its own: what is leased ahead begins when it fires, and its line
    /// says so. The statement puts the time of the line before what it gets of it.
    pub(crate) fn fired_row(&mut self, fired_at: Millis, from: From, attempt: i64, note: &Note) -> &mut One {
        let line = self.line(Event::Dispatch, from, attempt, note);
        let behind_time = line.find(',').and_then(|number| line.get(number..)).unwrap_or_default();
        let rows = self.rows.entry(Event::Dispatch).or_default();
        rows.row(from.place)
            .guard(from.state.code().into(), from.fence)
            .int(from.fence)
            .at(fired_at)
            .mark()
            .at(self.now)
            .text(behind_time)
    }

    fn line(&mut self, event: Event, from: From, attempt: i64, note: &Note) -> String {
        let line = match &mut self.line {
            Some((of, like, line)) if *of == event && *like == *note => line,
            line => {
                let new = history::line(self.now, Some(event), note);
                &mut line.insert((event, note.clone(), new)).2
            }
        };
        format!("{}{},{attempt}{}", line.head, from.state.code(), line.tail)
    }

    pub(crate) async fn send_if_long(
        &mut self,
        conn: &mut MySqlConnection,
        event: Event,
    ) -> sqlx::Result<()> {
        let is_long = |rows: &Rows| rows.size() > JSON_LEN_MAX || rows.len() >= ROWS_MAX;
        if self.rows.get(&event).is_some_and(is_long)
            && let Some(rows) = self.rows.remove(&event)
        {
            self.send(conn, event, rows).await?;
        }
        Ok(())
    }

    /// Runs what is left. Each event in its turn, and always in the same order.
    pub(crate) async fn finish(mut self, conn: &mut MySqlConnection) -> sqlx::Result<()> {
        for (event, rows) in std::mem::take(&mut self.rows) {
            self.send(conn, event, rows).await?;
        }
        self.entries.add(conn).await?;
        if self.places.is_empty() { Ok(()) } else { place::keep(conn, &mut self.places).await }
    }

    async fn send(&self, conn: &mut MySqlConnection, event: Event, rows: Rows) -> sqlx::Result<()> {
        let Some(text) = statements_moves::of_event(event) else {
            return Err(sqlx::Error::Protocol(format!("{event:?} is not made here")));
        };
        let wanted = rows.len();
        let moved = match alike::send(conn, event, &rows, self.now).await? {
            Some(moved) => moved,
            None => {
                let update = sqlx::query(text).bind(rows.json()).bind(self.now.0);
                update.execute(conn).await?.rows_affected()
            }
        };
        match complete(event, moved, wanted) {
            // One of them is not as it was said to be, or as it was read.
            Err(_) if !self.are_seen => Err(sqlx::Error::RowNotFound),
            complete => complete,
        }
    }
}

/// The state of a row when it was locked.
#[derive(Clone, Copy)]
pub(crate) struct From {
    pub(crate) place: TaskRef,
    pub(crate) fence: i64,
    pub(crate) state: State,
}

/// The rows are locked, so only a statement that disagrees with the table of transitions moves fewer.
fn complete(event: Event, moved: u64, wanted: usize) -> sqlx::Result<()> {
    if usize::try_from(moved) == Ok(wanted) {
        return Ok(());
    }
    Err(sqlx::Error::Protocol(format!("{event:?} moved {moved} of {wanted} rows that may move")))
}

/// The attempt after the move.
fn attempt_after(event: Event, attempt: i64) -> i64 {
    match event {
        Event::Release | Event::Snooze => (attempt - 1).max(0),
        Event::Redrive | Event::Replace => 0,
        Event::Dispatch => attempt + 1,
        _ => attempt,
    }
}

/// The note of a step, with the due time where it is the store that knows it.
fn noted(step: &Step, due_at: Option<Millis>) -> Cow<'_, Note> {
    match &step.change {
        Change::Unblock | Change::Reschedule { .. } | Change::Redrive { .. } => {
            Cow::Owned(Note { due_at, ..step.note.clone() })
        }
        _ => Cow::Borrowed(&step.note),
    }
}

/// The values of a row after those that all moves share, as the header of the event's script names them.
fn values(to: &mut One, change: &Change, spot: &Spot, due_at: Millis, error: Option<&str>) {
    let error = error.map(history::error);
    let error = error.as_deref();
    match change {
        Change::Claim | Change::Reclaim | Change::HandBack | Change::Release => to,
        Change::Start => to.null().null(),
        Change::Unblock => to.at(due_at),
        Change::Fire { fired_at: at }
        | Change::Cancel { keep_until: at }
        | Change::Withdraw { keep_until: at }
        | Change::Retire { keep_until: at } => to.at(*at),
        Change::FailDispatch => to.maybe_text(error),
        Change::Expire { keep_until } | Change::DeadLetter { keep_until } | Change::Abort { keep_until } => {
            to.at(*keep_until).maybe_text(error)
        }
        Change::Succeed { result, keep_until } => values_of_result(to.at(*keep_until), Some(result)),
        Change::Bury { result, keep_until } => {
            values_of_result(to.at(*keep_until), result.as_ref()).maybe_text(error)
        }
        Change::Retry { result, .. } => {
            let to = to.at(due_at).maybe_int(spot.deadline_from(due_at));
            values_of_result(to, result.as_ref()).maybe_text(error)
        }
        Change::Snooze { .. } => to.at(due_at).maybe_int(spot.deadline_from(due_at)),
        Change::Redrive { execute_at } => to.at(due_at).at(*execute_at),
        Change::Amend { max_attempts, priority, payload, timeout_ms, retry } => {
            to.maybe_int(max_attempts.map(i64::from))
                .maybe_int(priority.map(|priority| i64::from(priority.level())));
            let payload = payload.as_ref();
            to.maybe_int(payload.map(|payload| i64::from(payload.code())))
                .maybe_bytes(payload.and_then(row::inline));
            to.maybe_int(*timeout_ms).int(i64::from(retry.is_some()));
            to.maybe_text(retry.as_ref().and_then(row::retry_text).as_deref())
        }
        Change::Reschedule { execute_at, priority, payload, queue } => {
            let level = priority.map_or(spot.priority, |priority: Priority| i64::from(priority.level()));
            to.at(due_at).at(execute_at.unwrap_or(spot.execute_at)).int(level);
            let payload = payload.as_ref();
            to.maybe_int(payload.map(|payload| i64::from(payload.code())))
                .maybe_bytes(payload.and_then(row::inline));
            to.maybe_text(queue.as_ref().map(Name::as_str))
        }
    };
}

fn values_of_result<'r>(to: &'r mut One, result: Option<&TaskResult>) -> &'r mut One {
    let content = result.and_then(|result| result.content.as_ref());
    to.maybe_int(result.map(|result| result.status_code))
        .maybe_text(result.map(|result| result.status_msg.as_str()))
        .maybe_int(content.map(|content| i64::from(content.code())))
        .maybe_bytes(content.map(|content| content.bytes.as_slice()))
}

/// The size of the payload, if the account needs it: a task that waits before a move and after it keeps its bytes.
async fn bytes(conn: &mut MySqlConnection, spot: &Spot, change: &Change) -> sqlx::Result<i64> {
    let is_resized = matches!(change, Change::Reschedule { payload: Some(_), .. });
    let goes_elsewhere = change.queue().is_some_and(|queue| queue.as_str() != &*spot.queue);
    let is_counted =
        is_resized || goes_elsewhere || spot.state.is_pending() != change.event().target().is_pending();
    match spot.bytes {
        Some(bytes) => Ok(bytes),
        None if is_counted => long_bytes(conn, spot.place).await,
        None => Ok(0),
    }
}

/// The size of a payload in `body`.
pub(crate) async fn long_bytes(conn: &mut MySqlConnection, place: TaskRef) -> sqlx::Result<i64> {
    let length = sqlx::query_scalar(sql!(ledger, read_body_bytes))
        .bind(row::partition_no(place.partition))
        .bind(place.id);
    Ok(length.fetch_optional(conn).await?.unwrap_or(0))
}

async fn keep_body(conn: &mut MySqlConnection, spot: &Spot, payload: &Content) -> sqlx::Result<()> {
    let (partition, id) = (row::partition_no(spot.place.partition), spot.place.id);
    if row::inline(payload).is_none() {
        let body = sqlx::query(sql!(insert, insert_body)).bind(partition).bind(id).bind(&payload.bytes);
        body.execute(conn).await?;
    } else if spot.long {
        sqlx::query(sql!(insert, delete_body)).bind(partition).bind(id).execute(conn).await?;
    }
    Ok(())
}
