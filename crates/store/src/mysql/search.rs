//! Reads over all databases of a store: each asks those that can know, and puts their answers together in order.
//! Must only ever run in a task of its own, because a read that is dropped in the middle spoils its connection.

use super::{
    background::to_its_end,
    buckets, due,
    floor::Floors,
    hosted, lease_ends, overdue,
    parts::Shard,
    query::{self, Hold},
    reply,
    routing::state::Patience,
    scan as scans,
    shards::placement,
    state::{MySqlState, MysqlStore},
    statements::sql,
    timeouts::{READ, WorkTimeout, within},
    walk::{self, MySqlWalk},
    writer,
};
use crate::{Error, chunks};
use futures_util::future::BoxFuture;
use punctual_contract::{
    Error as CallError,
    hot::HotEntry,
    store::{Books, LeasePosition, OverdueLook, OverduePage, Page, Query, Reply, ReplyKey, Scan, Tally},
};
use punctual_domain::{
    name::Name,
    place::{Partition, TaskRef, partition_of},
    state::State,
    task::Task,
    time::Millis,
};
use sqlx::{MySqlConnection, mysql::MySqlRow};
use std::{cmp::Reverse, collections::BTreeSet, future::Future, sync::Arc};

/// `ER_TABLE_DEF_CHANGED`
const TABLE_CHANGED: u16 = 1412;
const SNAPSHOTS_MAX: u32 = 5;

/// The requested account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Account {
    Running,
    /// The account counted from the rows: it reads all of them.
    Counted,
}

impl MysqlStore {
    /// A short read in a task of its own: a caller that hangs up drops the answer, not a connection in the middle of its
    /// work.
    pub(super) fn reading<A, E, F>(
        &self,
        doing: &'static str,
        work: impl FnOnce(Arc<MySqlState>) -> F,
    ) -> BoxFuture<'static, Result<A, CallError>>
    where
        A: Send + 'static,
        E: From<sqlx::Error> + Into<Box<dyn std::error::Error + Send + Sync>> + Send + 'static,
        F: Future<Output = Result<A, E>> + Send + 'static,
    {
        self.reading_within(READ, doing, work)
    }

    pub(super) fn reading_within<A, E, F>(
        &self,
        limit: WorkTimeout,
        doing: &'static str,
        work: impl FnOnce(Arc<MySqlState>) -> F,
    ) -> BoxFuture<'static, Result<A, CallError>>
    where
        A: Send + 'static,
        E: From<sqlx::Error> + Into<Box<dyn std::error::Error + Send + Sync>> + Send + 'static,
        F: Future<Output = Result<A, E>> + Send + 'static,
    {
        let work = within(limit, work(Arc::clone(&self.inner)));
        Box::pin(async move {
            match to_its_end(work).await {
                Ok(done) => done.map_err(|error| CallError::did_not_happen(doing, error)),
                Err(panicked) => Err(CallError::did_not_happen(doing, Error::Panicked(panicked.to_string()))),
            }
        })
    }
}

/// The maximum number of times that a search over all databases begins anew because partitions moved meanwhile.
const SEARCHES_MAX: u32 = 5;

impl MySqlState {
    fn shard_of(&self, partition: Partition) -> Result<&Shard, Error> {
        self.shard(partition).ok_or(Error::Closed)
    }

    /// True if the cluster has the partition. No row can be in any other.
    fn is_partition(&self, partition: Partition) -> bool {
        partition.0 < self.cluster.partitions
    }

    async fn is_here(&self, conn: &mut MySqlConnection, partition: Partition) -> sqlx::Result<bool> {
        Ok(hosted::missing(conn, [partition]).await?.is_empty())
    }
}

pub(super) async fn scan(inner: Arc<MySqlState>, scan: Scan) -> Result<Vec<HotEntry>, Error> {
    if !inner.is_partition(scan.partition) {
        return Ok(Vec::new());
    }
    let (mut patience, mut is_unasked) = (Patience::new(), true);
    loop {
        let readers = &inner.shard_of(scan.partition)?.readers;
        let conn = if is_unasked { readers.acquire_unasked() } else { readers.acquire() };
        let mut conn = conn.await?;
        match scans::scan(&mut conn, &inner.floors, &scan).await {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => drop(conn),
            // Perhaps only the connection was dead: the next one answers a ping first, and its error is the caller's.
            Err(error) if is_unasked => {
                tracing::debug!(%error, "a read on a connection that was not pinged has failed; it is repeated once");
                conn.close_on_drop();
                is_unasked = false;
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        inner.follow(&mut patience, &[scan.partition].into()).await?;
    }
}

/// One round trip a database. What fails here fails again, and is said, where a partition is scanned by itself.
pub(super) async fn scan_together(
    inner: Arc<MySqlState>,
    scans: Vec<Scan>,
) -> Result<Vec<Option<Vec<HotEntry>>>, Error> {
    let mut found: Vec<Option<Vec<HotEntry>>> = scans.iter().map(|_| None).collect();
    for shard in inner.members() {
        let is_there = |scan: &Scan| {
            inner.is_partition(scan.partition)
                && inner.shard_of(scan.partition).is_ok_and(|owner| std::ptr::eq(owner, shard))
        };
        let (numbers, here): (Vec<usize>, Vec<&Scan>) =
            scans.iter().enumerate().filter(|(_, scan)| is_there(scan)).unzip();
        if here.len() < 2 {
            continue;
        }
        match together_in(shard, &inner.floors, &here).await {
            Ok(answers) => {
                for (nth, answer) in numbers.into_iter().zip(answers) {
                    if let Some(rows) = found.get_mut(nth) {
                        *rows = answer;
                    }
                }
            }
            // The other databases answer all the same.
            Err(error) => tracing::debug!(%error, "the partitions of a database could not be read together"),
        }
    }
    Ok(found)
}

async fn together_in(
    shard: &Shard,
    floors: &Floors,
    scans: &[&Scan],
) -> sqlx::Result<Vec<Option<Vec<HotEntry>>>> {
    let mut conn = shard.readers.acquire_unasked().await?;
    let answers = scans::scan_together(&mut conn, floors, scans).await;
    if answers.is_err() {
        conn.close_on_drop();
    }
    answers
}

pub(super) async fn overdue(inner: Arc<MySqlState>, look: OverdueLook) -> Result<OverduePage, Error> {
    if !inner.is_partition(look.partition) {
        return Ok(OverduePage::default());
    }
    let (mut patience, mut is_unasked) = (Patience::new(), true);
    loop {
        let number = inner.routing.placement().shard_of(look.partition);
        let readers = &inner.shards.get(number).ok_or(Error::Closed)?.readers;
        let conn = if is_unasked { readers.acquire_unasked() } else { readers.acquire() };
        let mut conn = conn.await?;
        match overdue::look(&mut conn, &look, number).await {
            Ok(Some(page)) => return Ok(page),
            Ok(None) => drop(conn),
            // As in `scan`.
            Err(error) if is_unasked => {
                tracing::debug!(%error, "a read on a connection that was not pinged has failed; it is repeated once");
                conn.close_on_drop();
                is_unasked = false;
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        inner.follow(&mut patience, &[look.partition].into()).await?;
    }
}

pub(super) async fn leases_ended(
    inner: Arc<MySqlState>,
    part: usize,
    now: Millis,
    limit: usize,
) -> Result<Vec<Task>, Error> {
    let Some(shard) = inner.members().get(part) else { return Ok(Vec::new()) };
    let placement = inner.routing.placement();
    let is_here = |partition: Partition| placement.shard_of(partition) == part;
    let mut conn = shard.reader().await?;
    let mut found = lease_ends::leases_ended(&mut conn, (now, limit), &is_here).await?;
    // Of a partition that has left meanwhile: what was read may be remains, and the lease extended where it is now.
    let gone = hosted::missing(&mut conn, found.iter().map(|task| task.place.partition)).await?;
    found.retain(|task| !gone.contains(&task.place.partition));
    Ok(found)
}

pub(super) async fn in_flight(
    inner: Arc<MySqlState>,
    after: Option<LeasePosition>,
    limit: usize,
) -> Result<(Vec<Task>, Option<LeasePosition>), Error> {
    let (number, position) =
        after.map_or((0, None), |position| (position.part, Some((position.until.0, position.id))));
    let members = inner.members();
    let Some(shard) = members.get(number) else { return Ok((Vec::new(), None)) };
    let placement = inner.routing.placement();
    let is_here = |partition: Partition| placement.shard_of(partition) == number;
    let mut conn = shard.reader().await?;
    let (mut found, next) = lease_ends::in_flight(&mut conn, position, limit, &is_here).await?;
    // As above: what has left is found where it is now, if that shard comes later, or at the next look.
    let gone = hosted::missing(&mut conn, found.iter().map(|task| task.place.partition)).await?;
    found.retain(|task| !gone.contains(&task.place.partition));
    let here = |(until, id)| LeasePosition { part: number, until: Millis(until), id };
    let next_shard = LeasePosition::beginning_of(number + 1);
    let is_last = number + 1 >= members.len();
    Ok((found, next.map(here).or_else(|| (!is_last).then_some(next_shard))))
}

pub(super) async fn read(inner: Arc<MySqlState>, places: Vec<TaskRef>) -> Result<Vec<Option<Task>>, Error> {
    let mut found: Vec<Option<Task>> = places.iter().map(|_| None).collect();
    let mut left: Vec<(usize, TaskRef)> = places.into_iter().enumerate().collect();
    left.retain(|pair| inner.is_partition(pair.1.partition));
    let mut patience = Patience::new();
    loop {
        let missed = read_once(&inner, &left, &mut found).await?;
        if missed.is_empty() {
            return Ok(found);
        }
        left.retain(|pair| missed.contains(&pair.1.partition));
        inner.follow(&mut patience, &missed).await?;
    }
}

/// Returns the partitions that were not where they were searched.
async fn read_once(
    inner: &MySqlState,
    wanted: &[(usize, TaskRef)],
    found: &mut [Option<Task>],
) -> Result<BTreeSet<Partition>, Error> {
    let (mut missed, placement) = (BTreeSet::new(), inner.routing.placement());
    for (number, shard) in inner.members().iter().enumerate() {
        let here = wanted.iter().filter(|pair| placement.shard_of(pair.1.partition) == number);
        let (numbers, places): (Vec<usize>, Vec<TaskRef>) = here.copied().unzip();
        if places.is_empty() {
            continue;
        }
        let mut conn = shard.reader().await?;
        let tasks = query::read(&mut conn, &places, Hold::Nothing).await?;
        for (nth, task) in numbers.into_iter().zip(tasks) {
            if let Some(place) = found.get_mut(nth) {
                *place = task;
            }
        }
        missed.extend(hosted::missing(&mut conn, places.iter().map(|place| place.partition)).await?);
    }
    Ok(missed)
}

pub(super) async fn versions(
    inner: Arc<MySqlState>,
    namespace: Name,
    task_id: i64,
    version: Option<i64>,
    limit: usize,
) -> Result<Vec<Task>, Error> {
    let partition = partition_of(&namespace, task_id, inner.cluster.partitions);
    let mut patience = Patience::new();
    loop {
        let mut conn = inner.shard_of(partition)?.reader().await?;
        let found = query::versions(&mut conn, (partition, &namespace, task_id), version, limit).await?;
        if inner.is_here(&mut conn, partition).await? {
            return Ok(found);
        }
        drop(conn);
        inner.follow(&mut patience, &[partition].into()).await?;
    }
}

/// Each database that could have one of them is asked once.
pub(super) async fn latest_versions(
    inner: Arc<MySqlState>,
    namespace: Name,
    task_ids: Vec<i64>,
) -> Result<Vec<Task>, Error> {
    let placed = |id: &i64| (partition_of(&namespace, *id, inner.cluster.partitions), *id);
    let mut left: Vec<(Partition, i64)> = task_ids.iter().map(placed).collect();
    let (mut found, mut patience) = (Vec::new(), Patience::new());
    loop {
        let (mut missed, placement) = (BTreeSet::new(), inner.routing.placement());
        for (number, shard) in inner.members().iter().enumerate() {
            let here = left.iter().copied().filter(|pair| placement.shard_of(pair.0) == number);
            let here: Vec<_> = here.collect();
            if here.is_empty() {
                continue;
            }
            let mut conn = shard.reader().await?;
            let tasks = query::latest_versions(&mut conn, &namespace, &here).await?;
            let gone = hosted::missing(&mut conn, here.iter().map(|pair| pair.0)).await?;
            found.extend(tasks.into_iter().filter(|task| !gone.contains(&task.place.partition)));
            missed.extend(gone);
        }
        if missed.is_empty() {
            return Ok(found);
        }
        left.retain(|pair| missed.contains(&pair.0));
        inner.follow(&mut patience, &missed).await?;
    }
}

/// A partition that moves meanwhile could be in none of the databases when they are asked one after the other, or in
/// two: then the search begins anew.
pub(super) async fn list(inner: Arc<MySqlState>, query: Query) -> Result<Page, Error> {
    while_nothing_moves(&inner, || list_once(&inner, &query)).await
}

pub(super) async fn while_nothing_moves<T, F>(inner: &MySqlState, search: impl Fn() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut tries = 0;
    loop {
        tries += 1;
        let before = placement::version(&mut *inner.catalog.acquire().await?).await?;
        let page = search().await?;
        let after = placement::version(&mut *inner.catalog.acquire().await?).await?;
        if before == after || tries == SEARCHES_MAX {
            return Ok(page);
        }
    }
}

/// Along all ids, upward.
async fn oldest_first(inner: &MySqlState, query: &Query) -> Result<Page, Error> {
    let shards: Vec<&Shard> = inner.members().iter().collect();
    let Some(oldest) = walk::oldest_above(&shards, query.after_id.unwrap_or(i64::MIN)).await? else {
        return Ok(Page::default());
    };
    let (ceiling, limit) = (oldest.saturating_add(walk::IDS_MAX - 1), query.limit.max(1));
    let mut tasks = Vec::new();
    for shard in inner.members() {
        let (_permit, mut conn) = shard.long_reader().await?;
        tasks.extend(MySqlWalk::Ids.list(&mut conn, query, oldest..=ceiling, limit).await?);
    }
    tasks.sort_by_key(|task| task.place.id);
    tasks.dedup_by_key(|task| task.place.id);
    tasks.truncate(limit);
    let full = tasks.last().filter(|_| tasks.len() >= limit).map(|task| task.place.id);
    let next = walk::oldest_above(&shards, full.unwrap_or(ceiling)).await?;
    if let Some((key, value)) = &query.label {
        tasks.retain(|task| task.ask.labels.get(key) == Some(value));
    }
    let next_after_id = next.map(|next| next.saturating_sub(1));
    let is_short = tasks.len() < limit && next.is_some();
    let newest_id = if is_short { MySqlWalk::Ids.newest_below(&shards, i64::MAX).await? } else { None };
    let examined = chunks::examined(&[oldest..=full.unwrap_or(ceiling)], None);
    Ok(Page { tasks, next_after_id, newest_id, examined, ..Page::default() })
}

async fn list_once(inner: &MySqlState, query: &Query) -> Result<Page, Error> {
    if query.behind_due.is_some() {
        return due::list(inner, query).await;
    }
    if query.oldest_first && !query.by_due_time {
        return oldest_first(inner, query).await;
    }
    let label = query.label.as_ref();
    let dead = query.state == Some(State::Dead);
    let shards: Vec<&Shard> = inner.members().iter().collect();
    let of_tasks = (query.queue.as_ref(), query.kind.as_ref());
    let walk = MySqlWalk::of(&shards, query.namespace.as_ref(), of_tasks, label, dead).await?;
    if query.by_due_time && query.before_id.is_none() && walk.is_of_ids() {
        return due::list(inner, query).await;
    }
    let along = walk.along();
    let looked = walk.look(&shards, query.before_id.unwrap_or(i64::MAX)).await?;
    let Some(floor) = looked.last().map(|range| *range.start()) else {
        return Ok(Page { along, ..Page::default() });
    };
    let limit = query.limit.max(1);
    let mut tasks: Vec<Task> = Vec::new();
    for ids in &looked {
        let (mut found, room) = (Vec::new(), limit - tasks.len());
        for shard in inner.members() {
            let (_permit, mut conn) = shard.long_reader().await?;
            found.extend(walk.list(&mut conn, query, ids.clone(), room).await?);
        }
        found.sort_by_key(|task| Reverse(task.place.id));
        found.dedup_by_key(|task| task.place.id);
        found.truncate(room);
        tasks.extend(found);
        if tasks.len() >= limit {
            break;
        }
    }
    let full = tasks.last().filter(|_| tasks.len() >= limit).map(|task| task.place.id);
    let next = walk.newest_below(&shards, full.unwrap_or(floor)).await?;
    let examined = walk.examined(&looked, full, tasks.len());
    if let Some((key, value)) = label {
        tasks.retain(|task| task.ask.labels.get(key) == Some(value));
    }
    let next_before_id = next.map(|next| next.saturating_add(1));
    let of_all = if walk.is_of_ids() { &MySqlWalk::Ids } else { &walk };
    let is_short = tasks.len() < limit && next.is_some();
    let newest_id = if is_short { of_all.newest_below(&shards, i64::MAX).await? } else { None };
    Ok(Page { next_before_id, tasks, along, newest_id, examined, ..Page::default() })
}

pub(super) async fn account(inner: Arc<MySqlState>, which: Account) -> sqlx::Result<Books> {
    let mut sum = query::Sum::default();
    for shard in inner.members() {
        match which {
            Account::Running => {
                sum.add(
                    &sqlx::query(sql!(ledger, read_books)).fetch_all(&mut *shard.reader().await?).await?,
                )?;
            }
            Account::Counted => {
                let (rows, unsettled) = counted(shard).await?;
                sum.add(&rows)?;
                sum.add_tallies(unsettled);
            }
        }
    }
    Ok(sum.books())
}

/// The rows of one database and what is between the rows and the account, on one snapshot.
async fn counted(shard: &Shard) -> sqlx::Result<(Vec<MySqlRow>, Vec<(Tally, i64)>)> {
    let (_permit, mut conn) = shard.long_reader().await?;
    let mut tries = 1;
    loop {
        let counted = snapshot(&mut conn).await;
        let done = sqlx::raw_sql("ROLLBACK").execute(&mut *conn).await;
        match counted {
            // A bucket was made or dropped meanwhile, which no snapshot reaches over.
            Err(error) if tries < SNAPSHOTS_MAX && writer::code(&error) == Some(TABLE_CHANGED) => tries += 1,
            counted => {
                if done.is_err() {
                    // It must not go back with an open transaction.
                    conn.close_on_drop();
                }
                return counted;
            }
        }
    }
}

async fn snapshot(conn: &mut MySqlConnection) -> sqlx::Result<(Vec<MySqlRow>, Vec<(Tally, i64)>)> {
    sqlx::raw_sql(sql!(session, begin_snapshot)).execute(&mut *conn).await?;
    let rows = sqlx::query(sql!(ledger, count_books)).fetch_all(&mut *conn).await?;
    Ok((rows, buckets::unsettled(conn).await?))
}

pub(super) async fn load_reply(
    inner: Arc<MySqlState>,
    key: ReplyKey,
    now: Millis,
) -> Result<Option<Reply>, Error> {
    let partition = reply::partition_of_reply(&key, inner.cluster.partitions);
    let mut patience = Patience::new();
    loop {
        let mut conn = inner.shard_of(partition)?.reader().await?;
        let found = reply::load(&mut conn, &key, now).await?;
        if inner.is_here(&mut conn, partition).await? {
            return Ok(found);
        }
        drop(conn);
        inner.follow(&mut patience, &[partition].into()).await?;
    }
}
