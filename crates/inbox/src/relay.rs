//! Moves rows of one inbox. `run_once` is bounded, and may be dropped at any of its waits; the head of the crate says what
//! is left then. Must never remove a row before its insert was answered.

use crate::{
    intake::{Intake, RowVerdict},
    report::{InboxReport, InboxState, RowNumbers},
    row,
    walk::InboxWalk,
};
use parking_lot::Mutex;
use punctual_contract::{
    Error, InboxTable,
    inbox::{InboxRow, RefusedRow, RowHead},
};
use punctual_domain::{name::Name, time::Millis};
use punctual_protocol::InsertTask;
use std::{collections::HashSet, sync::Arc, time::Duration};

/// Between two looks at an inbox that was empty.
pub const PERIOD: Duration = Duration::from_millis(50);
/// Rows of one look.
const ROWS: usize = 500;
/// Looks of one run.
const LOOKS: usize = 20;
/// Rows that were read longer ago are read again, not inserted: their relay was frozen. The store holds to it, too.
const STALE_MS: i64 = 30_000;
/// So long after it was read no insert of a row is committed any more: `STALE_MS` by the store's clock, then a transaction, of which
/// the store undoes what is silent for 3 s; the rest is for clocks that differ.
const FIRST_OFFER_MS: i64 = 300_000;
/// The first rest; each is twice as long as the one before.
const REST_MS: i64 = 100;
const REST_MAX_MS: i64 = 1_000;
const COUNT_EVERY_MS: i64 = 1_000;

/// Cheap to clone; all clones are the same relay.
#[derive(Clone, Debug)]
pub struct Relay(Arc<RelayState>);

#[derive(Debug)]
struct RelayState {
    /// All rows go there. None: where each row says.
    namespace: Option<Name>,
    table: Arc<dyn InboxTable>,
    intake: Arc<dyn Intake>,
    walk: Mutex<InboxWalk>,
    pause: Mutex<RelayPause>,
    report: Mutex<InboxReport>,
}

#[derive(Debug, Default)]
struct RelayPause {
    until: Option<Millis>,
    /// In a row.
    rests: u32,
    counted_at: Option<Millis>,
}

/// A row between its offer and its verdict.
#[derive(Debug)]
struct OfferedRow {
    id: i64,
    queue: String,
    key: String,
    age_ms: i64,
    version: i64,
    /// An earlier try may have inserted it.
    maybe_inserted: bool,
}

/// What is to be done with the rows of one look.
#[derive(Debug, Default)]
struct Verdicts {
    remove: Vec<i64>,
    refuse: Vec<RefusedRow>,
    withdraw: Vec<i64>,
    /// Namespace, queue and key of those that stay.
    put_off: Vec<(String, String, String)>,
    /// Namespaces and queues of those that were inserted.
    taken: HashSet<(String, String)>,
    numbers: RowNumbers,
    lags_ms: Vec<i64>,
    /// Nothing else can be inserted now.
    closed: Option<String>,
    /// Why rows stay, if they do.
    said: Option<String>,
}

/// What a run has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MovedRows {
    rows: usize,
    must_rest: bool,
}

impl Relay {
    /// With a namespace, all tasks go into it, and a row that names another is refused.
    #[must_use]
    pub fn new(
        name: &str,
        namespace: Option<Name>,
        table: Arc<dyn InboxTable>,
        intake: Arc<dyn Intake>,
    ) -> Self {
        let report = InboxReport { name: name.to_owned(), at: table.at(), ..InboxReport::default() };
        Self(Arc::new(RelayState {
            namespace,
            table,
            intake,
            walk: Mutex::default(),
            pause: Mutex::default(),
            report: Mutex::new(report),
        }))
    }

    #[must_use]
    pub fn report(&self) -> InboxReport {
        self.0.report.lock().clone()
    }

    /// Moves waiting rows, as far as queues and the store take them. Returns how many rows have become tasks. An unavailable user's
    /// database is reported (`report`), and is no error of the engine.
    ///
    /// # Errors
    /// Never; the type is that of a supervised service.
    pub async fn run_once(&self, now: Millis) -> Result<usize, Error> {
        if self.0.pause.lock().until.is_some_and(|until| now < until && until.since(now) <= REST_MAX_MS) {
            return Ok(0);
        }
        let (rows, must_rest) = match self.0.move_rows().await {
            Ok(moved) => {
                self.0.report.lock().failing_since = None;
                (moved.rows, moved.must_rest)
            }
            Err(error) => {
                self.0.failed(&error, now);
                (0, true)
            }
        };
        self.0.rest(must_rest, now);
        self.0.count(now).await;
        Ok(rows)
    }

    /// Another relay may go on at once.
    pub async fn let_go(&self) {
        self.0.table.let_go().await;
    }
}

impl RelayState {
    fn failed(&self, error: &Error, now: Millis) {
        let mut report = self.report.lock();
        if report.failing_since.is_none() {
            tracing::warn!(inbox = report.name, at = report.at, %error, "an inbox cannot be moved; it is tried again");
        }
        report.state = InboxState::Away;
        report.failing_since = report.failing_since.or(Some(now));
        report.last_error = Some((now, error.to_string()));
    }

    fn rest(&self, must_rest: bool, now: Millis) {
        let mut pause = self.pause.lock();
        pause.rests = if must_rest { pause.rests.saturating_add(1) } else { 0 };
        let rest_ms = REST_MS.saturating_mul(1 << pause.rests.saturating_sub(1).min(10)).min(REST_MAX_MS);
        pause.until = must_rest.then(|| now.plus(rest_ms));
    }

    async fn count(&self, now: Millis) {
        let counted_at = self.pause.lock().counted_at;
        if counted_at.is_some_and(|at| (0..COUNT_EVERY_MS).contains(&now.since(at))) {
            return;
        }
        self.pause.lock().counted_at = Some(now);
        match self.table.counts().await {
            Ok(counts) => self.report.lock().counted(counts, now),
            Err(error) => self.failed(&error, now),
        }
        let report = self.report();
        self.intake.report(&report.name, report.trouble(now));
    }

    fn report(&self) -> InboxReport {
        self.report.lock().clone()
    }

    async fn move_rows(&self) -> Result<MovedRows, Error> {
        let mut moved = MovedRows::default();
        if !self.table.hold().await? {
            self.report.lock().state = InboxState::Standby;
            *self.walk.lock() = InboxWalk::default();
            return Ok(MovedRows { must_rest: true, ..moved });
        }
        self.report.lock().state = InboxState::Moving;
        for _ in 0..LOOKS {
            let above = self.walk.lock().above();
            let mut heads = self.table.heads(above, ROWS).await?;
            heads.iter_mut().for_each(|head| row::into_namespace(head, self.namespace.as_ref()));
            let is_last = heads.len() < ROWS;
            let most = self.intake.payload_max_bytes();
            let (heads_of_tasks, too_long): (Vec<RowHead>, Vec<RowHead>) =
                heads.into_iter().partition(|head| head.bytes <= most);
            let chosen = self.walk.lock().choose(&heads_of_tasks, is_last);
            let mut verdicts = self.offer(&chosen.ids).await?;
            too_long.iter().for_each(|head| verdicts.refuse_too_long(head, most));
            let has_moved = verdicts.remove.len() + verdicts.refuse.len();
            moved.rows += verdicts.remove.len();
            let closed = verdicts.closed.is_some();
            self.carry_out(verdicts).await?;
            let mut walk = self.walk.lock();
            if closed || chosen.is_end {
                moved.must_rest = closed || walk.has_put_off();
                if !moved.must_rest {
                    self.report.lock().last_error = None;
                }
                walk.anew();
                // What has come meanwhile is found by the next run.
                if closed || has_moved == 0 || moved.must_rest {
                    break;
                }
            }
        }
        Ok(moved)
    }

    /// Inserts rows, and says what is to be done with them.
    async fn offer(&self, ids: &[i64]) -> Result<Verdicts, Error> {
        let mut verdicts = Verdicts::default();
        if ids.is_empty() {
            return Ok(verdicts);
        }
        let asked_at = self.intake.now();
        let rows = self.table.offer(ids).await?;
        for (namespace, rows) in self.sorted(rows, &mut verdicts).await {
            let (offered, tasks): (Vec<OfferedRow>, Vec<InsertTask>) = rows.into_iter().unzip();
            if verdicts.closed.is_none() && self.intake.now().since(asked_at) > STALE_MS {
                verdicts.closed = Some("rows were read too long ago; they are read again".to_owned());
            }
            if let Some(why) = verdicts.closed.clone() {
                offered
                    .into_iter()
                    .for_each(|row| verdicts.note(&namespace, row, RowVerdict::Closed(why.clone()), 0));
                continue;
            }
            let name = self.report.lock().name.clone();
            let by = asked_at.plus(STALE_MS);
            let answers = self.intake.insert(&name, &namespace, tasks, by).await;
            let took_ms = self.intake.now().since(asked_at);
            verdicts.closed = all_closed(&answers);
            let lost = || RowVerdict::Unknown("the engine did not answer".to_owned());
            let mut answers = answers.into_iter();
            for row in offered {
                verdicts.note(&namespace, row, answers.next().unwrap_or_else(lost), took_ms);
            }
        }
        Ok(verdicts)
    }

    /// By namespace; without those that are refused, or whose first offer is too long ago to be decided by an insert.
    async fn sorted(
        &self,
        rows: Vec<InboxRow>,
        verdicts: &mut Verdicts,
    ) -> Vec<(Name, Vec<(OfferedRow, InsertTask)>)> {
        let mut groups: Vec<(Name, Vec<(OfferedRow, InsertTask)>)> = Vec::new();
        for mut row in rows {
            row::into_namespace(&mut row.head, self.namespace.as_ref());
            let offered_before_ms = row.offered_before_ms;
            let offered = OfferedRow::of(&row);
            let named = row::namespace(&row, self.namespace.as_ref())
                .and_then(|namespace| Ok((namespace, row::task(row)?)));
            match named {
                Err(why) => verdicts.refuse(&offered, why),
                Ok((namespace, _)) if self.is_doubtful(offered_before_ms, &namespace, &offered.queue) => {
                    let verdict = match self.intake.is_known(&namespace, &offered.key, offered.version).await
                    {
                        Ok(true) => RowVerdict::Existing,
                        Ok(false) => RowVerdict::Refused(DOUBTFUL.to_owned()),
                        Err(said) => RowVerdict::Unknown(said),
                    };
                    verdicts.note(&namespace, offered, verdict, 0);
                }
                Ok((namespace, task)) => match groups.iter_mut().find(|group| group.0 == namespace) {
                    Some(group) => group.1.push((offered, task)),
                    None => groups.push((namespace, vec![(offered, task)])),
                },
            }
        }
        groups
    }

    /// An insert by its key does not decide any more whether it was inserted before.
    fn is_doubtful(&self, offered_before_ms: Option<i64>, namespace: &Name, queue: &str) -> bool {
        let known_ms = self.intake.known_for_ms(namespace, queue);
        let decides_for_ms = (known_ms / 2).min(known_ms - FIRST_OFFER_MS);
        offered_before_ms.is_some_and(|before_ms| before_ms >= decides_for_ms)
    }

    async fn carry_out(&self, verdicts: Verdicts) -> Result<(), Error> {
        {
            let mut report = self.report.lock();
            report.numbers.add(verdicts.numbers);
            verdicts.lags_ms.iter().for_each(|lag_ms| report.lagged(*lag_ms));
            if let Some(said) = verdicts.closed.or(verdicts.said) {
                report.last_error = Some((self.intake.now(), said));
            }
        }
        for (namespace, queue) in &verdicts.taken {
            self.walk.lock().taken(namespace, queue);
        }
        let put_off = verdicts.put_off;
        put_off
            .into_iter()
            .for_each(|(namespace, queue, key)| self.walk.lock().put_off(namespace, queue, key));
        for row in &verdicts.refuse {
            tracing::warn!(
                inbox = self.report().name,
                row = row.id,
                why = row.why,
                "a row of an inbox is refused"
            );
        }
        self.table.remove(&verdicts.remove).await?;
        self.table.refuse(&verdicts.refuse).await?;
        self.table.withdraw_offer(&verdicts.withdraw).await
    }
}

/// Why a row is refused that may have been a task.
const DOUBTFUL: &str = "a relay was stopped while it inserted this row, so long ago that its task may have ended and been \
                        forgotten. Look whether it was done: then delete the row; else set offered_at_ms, refused_at_ms and \
                        refused_why to NULL";

impl OfferedRow {
    fn of(row: &InboxRow) -> Self {
        Self {
            id: row.head.id,
            queue: row.head.queue.clone(),
            key: row::key(row),
            age_ms: row.age_ms,
            version: row.version,
            maybe_inserted: row.offered_before_ms.is_some(),
        }
    }
}

/// The reason if a call decided no row at all: then the rows behind it are not offered either. None: some rows were decided, so
/// the trouble concerns single rows, such as one of several databases.
fn all_closed(answers: &[RowVerdict]) -> Option<String> {
    let why = |answer: &RowVerdict| match answer {
        RowVerdict::Closed(why) | RowVerdict::Unknown(why) => Some(why.clone()),
        _ => None,
    };
    let all: Option<Vec<String>> = answers.iter().map(why).collect();
    all.and_then(|all| all.into_iter().next())
}

impl Verdicts {
    fn refuse(&mut self, row: &OfferedRow, why: String) {
        self.numbers.refused += 1;
        self.refuse.push(RefusedRow { id: row.id, why, maybe_inserted: row.maybe_inserted });
    }

    fn refuse_too_long(&mut self, head: &RowHead, most: u64) {
        let why = format!("payload: has {} bytes, and may have at most {most}", head.bytes);
        self.numbers.refused += 1;
        self.refuse.push(RefusedRow { id: head.id, why, maybe_inserted: false });
    }

    fn note(&mut self, namespace: &Name, row: OfferedRow, verdict: RowVerdict, took_ms: i64) {
        match verdict {
            RowVerdict::Inserted => {
                self.numbers.inserted += 1;
                self.lags_ms.push(row.age_ms.saturating_add(took_ms));
                self.remove.push(row.id);
                self.taken.insert((namespace.as_str().to_owned(), row.queue));
            }
            RowVerdict::Existing => {
                self.numbers.existing += 1;
                self.remove.push(row.id);
            }
            RowVerdict::Superseded => {
                self.numbers.superseded += 1;
                self.remove.push(row.id);
            }
            RowVerdict::Refused(why) => self.refuse(&row, why),
            RowVerdict::NotNow(why) => {
                self.said = self.said.take().or(Some(why));
                self.stays(namespace, row, true);
            }
            RowVerdict::Closed(why) => {
                self.said = self.said.take().or(Some(why));
                self.stays(namespace, row, true);
            }
            RowVerdict::Unknown(why) => {
                self.said = self.said.take().or(Some(why));
                self.stays(namespace, row, false);
            }
        }
    }

    /// A row that an earlier try may have inserted keeps its note of that.
    fn stays(&mut self, namespace: &Name, row: OfferedRow, was_not_inserted: bool) {
        self.numbers.put_off += 1;
        if was_not_inserted && !row.maybe_inserted {
            self.withdraw.push(row.id);
        }
        self.put_off.push((namespace.as_str().to_owned(), row.queue, row.key));
    }
}
