//! Along what a search over databases walks, the newest first: all ids, the chunks of ids in which a queue has tasks, or only what is
//! entered under a label.
//! Either way a position is an id, so that a walk may change from one to the other between two pages.

use super::{
    chunks as entered, labels, lookup,
    parts::Shard,
    query::{self, label_text},
    statements::sql,
};
use crate::{Error, chunks};
use punctual_contract::store::{Along, Query};
use punctual_domain::{name::Name, task::Task};
use sqlx::{MySqlConnection, Row as _};
use std::{collections::BTreeSet, ops::RangeInclusive};

/// The maximum number of ids that one read passes over, and of entries: each is found by several keys.
pub(super) const IDS_MAX: i64 = 20_000;
const ENTRIES_MAX: i64 = 5_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MySqlWalk {
    Ids,
    Chunks(Chunks),
    /// The entries under a term, with the reason.
    Term(i64, Along),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chunks {
    namespace: Name,
    queue: Option<Name>,
    kind: Option<Name>,
    /// Below this id not all databases have entered all: there all ids are walked.
    below: i64,
}

impl MySqlWalk {
    /// Selects the shortest walk that finds all that could match. `dead` states that nothing else is searched.
    pub(super) async fn of(
        shards: &[&Shard],
        namespace: Option<&Name>,
        (queue, kind): (Option<&Name>, Option<&Name>),
        label: Option<&(String, String)>,
        dead: bool,
    ) -> Result<Self, Error> {
        let Some(namespace) = namespace else { return Ok(Self::Ids) };
        if let Some((key, value)) = label
            && is_everywhere(shards, (namespace, queue), Some(key)).await?
        {
            return Ok(Self::Term(lookup::term(namespace.as_str(), key, value), Along::Label));
        }
        if dead && is_everywhere(shards, (namespace, queue), None).await? {
            return Ok(Self::Term(lookup::dead(namespace.as_str()), Along::Dead));
        }
        let Some(below) = not_entered_below(shards).await? else { return Ok(Self::Ids) };
        let (namespace, kind) = (namespace.clone(), queue.and(kind).cloned());
        Ok(Self::Chunks(Chunks { namespace, queue: queue.cloned(), kind, below }))
    }

    pub(super) const fn along(&self) -> Along {
        match self {
            Self::Chunks(Chunks { queue: Some(_), .. }) => Along::Chunks,
            Self::Ids | Self::Chunks(_) => Along::Ids,
            Self::Term(_, along) => *along,
        }
    }

    /// It walks ids, all or in chunks.
    pub(super) const fn is_of_ids(&self) -> bool {
        matches!(self, Self::Ids | Self::Chunks(_))
    }

    /// The ids below an id that a read passes through, the newest first; empty at the end.
    pub(super) async fn look(
        &self,
        shards: &[&Shard],
        before: i64,
    ) -> Result<Vec<RangeInclusive<i64>>, Error> {
        if let Self::Chunks(chunks) = self {
            return chunks.look(shards, before).await;
        }
        let Some(newest) = self.newest_below(shards, before).await? else { return Ok(Vec::new()) };
        Ok(vec![self.floor(shards, newest).await?..=newest])
    }

    /// The number of examined ids, or of entries: of those only the number of found ones is known.
    pub(super) fn examined(&self, looked: &[RangeInclusive<i64>], full: Option<i64>, found: usize) -> u64 {
        if self.is_of_ids() {
            return chunks::examined(looked, full);
        }
        u64::try_from(found).unwrap_or(u64::MAX)
    }

    /// The newest below an id that it would meet.
    pub(super) async fn newest_below(&self, shards: &[&Shard], id: i64) -> Result<Option<i64>, Error> {
        let term = match self {
            Self::Chunks(chunks) => {
                return Ok(chunks.look(shards, id).await?.first().map(|range| *range.end()));
            }
            Self::Ids => None,
            Self::Term(term, _) => Some(*term),
        };
        let mut newest = None;
        for shard in shards {
            let asked = match term {
                None => sqlx::query(sql!(query, find_newest_below)),
                Some(term) => sqlx::query(sql!(labels, find_newest)).bind(term),
            };
            let newest_here = async {
                let found = asked.bind(id).fetch_one(&mut *shard.readers.acquire().await?).await?;
                found.try_get::<Option<i64>, _>(0)
            };
            newest = newest.max(newest_here.await.map_err(|error| shard.failed(error))?);
        }
        Ok(newest)
    }

    /// Tasks with ids in a range, newest first unless the query says otherwise. Tasks are among them that have the label inside another label's value.
    pub(super) async fn list(
        &self,
        conn: &mut MySqlConnection,
        query: &Query,
        ids: RangeInclusive<i64>,
        limit: usize,
    ) -> sqlx::Result<Vec<Task>> {
        let (namespace, queue) = (query.namespace.as_ref().map(Name::as_str), query.queue.as_ref());
        let (queue, kind) = (queue.map(Name::as_str), query.kind.as_ref().map(Name::as_str));
        let state = query.state.map(|state| i32::from(state.code()));
        let (after, before) = (query.due_after.map(|at| at.0), query.due_before.map(|at| at.0));
        let label = query.label.as_ref().map(label_text);
        let updated = query.updated_from.map(|at| at.0);
        let search = match self {
            Self::Ids if query.oldest_first => sqlx::query(sql!(query, list_rising)),
            Self::Ids | Self::Chunks(_) => sqlx::query(sql!(query, list)),
            Self::Term(term, _) => sqlx::query(sql!(query, list_by_term)).bind(*term),
        };
        let search = search
            .bind(ids.end().saturating_add(1))
            .bind(ids.start())
            .bind(namespace)
            .bind(namespace)
            .bind(queue)
            .bind(queue)
            .bind(state)
            .bind(state)
            .bind(kind)
            .bind(kind)
            .bind(after)
            .bind(after)
            .bind(before)
            .bind(before)
            .bind(label.as_deref())
            .bind(label.as_deref())
            .bind(updated)
            .bind(updated)
            .bind(query.error.as_deref())
            .bind(query.error.as_deref())
            .bind(query::rows(limit));
        query::tasks(&search.fetch_all(conn).await?)
    }

    /// The lowest id of one read that begins with an id.
    async fn floor(&self, shards: &[&Shard], newest: i64) -> Result<i64, Error> {
        let Self::Term(term, _) = self else { return Ok(newest.saturating_sub(IDS_MAX - 1)) };
        let mut floor = i64::MIN;
        for shard in shards {
            let asked = sqlx::query(sql!(labels, find_term_bound)).bind(term).bind(newest.saturating_add(1));
            let asked = asked.bind(ENTRIES_MAX - 1);
            let floor_here = async {
                let found = asked.fetch_optional(&mut *shard.readers.acquire().await?).await?;
                found.map(|row| row.try_get(0)).transpose()
            };
            floor = floor_here
                .await
                .map_err(|error| shard.failed(error))?
                .map_or(floor, |floor_here| floor.max(floor_here));
        }
        Ok(floor)
    }
}

impl Chunks {
    async fn look(&self, shards: &[&Shard], before: i64) -> Result<Vec<RangeInclusive<i64>>, Error> {
        let first = chunks::of(before.saturating_sub(1));
        let of = [self.namespace.as_str(), self.queue.as_ref().map_or("", Name::as_str)];
        let kind = self.kind.as_ref().map(Name::as_str);
        let mut all = BTreeSet::new();
        for shard in shards {
            let entered =
                async { entered::newest(&mut *shard.readers.acquire().await?, of, kind, first).await };
            all.extend(entered.await.map_err(|error| shard.failed(error))?);
        }
        let newest: Vec<i64> = all.into_iter().rev().take(chunks::LOOK).collect();
        let mut ranges = chunks::ranges(&newest, before, self.below);
        if chunks::reach(&newest, self.below) {
            let newest = Box::pin(MySqlWalk::Ids.newest_below(shards, before.min(self.below))).await?;
            ranges.extend(newest.map(|newest| newest.saturating_sub(IDS_MAX - 1)..=newest));
        }
        Ok(ranges)
    }
}

/// Returns `None` if the index of one database has not begun.
async fn not_entered_below(shards: &[&Shard]) -> Result<Option<i64>, Error> {
    let mut below = 0;
    for shard in shards {
        let here = async { entered::not_entered_below(&mut *shard.readers.acquire().await?).await };
        let Some(here) = here.await.map_err(|error| shard.failed(error))? else { return Ok(None) };
        below = below.max(here);
    }
    Ok(Some(below))
}

/// The oldest task above an id.
pub(super) async fn oldest_above(shards: &[&Shard], id: i64) -> Result<Option<i64>, Error> {
    let mut oldest: Option<i64> = None;
    for shard in shards {
        let oldest_here = async {
            let asked = sqlx::query(sql!(query, find_oldest_above)).bind(id);
            asked.fetch_one(&mut *shard.readers.acquire().await?).await?.try_get::<Option<i64>, _>(0)
        };
        let here = oldest_here.await.map_err(|error| shard.failed(error))?;
        oldest = oldest.into_iter().chain(here).min();
    }
    Ok(oldest)
}

/// All that could match is entered, in each database: what has the label, or the dead.
async fn is_everywhere(
    shards: &[&Shard],
    (namespace, queue): (&Name, Option<&Name>),
    label: Option<&String>,
) -> Result<bool, Error> {
    for shard in shards {
        let is_whole = async {
            let mut conn = shard.readers.acquire().await?;
            match label {
                Some(label) => labels::is_whole(&mut conn, namespace, queue, label).await,
                None => Ok(sqlx::query(sql!(labels, is_dead_complete))
                    .fetch_optional(&mut *conn)
                    .await?
                    .is_some()),
            }
        };
        if !is_whole.await.map_err(|error| shard.failed(error))? {
            return Ok(false);
        }
    }
    Ok(true)
}
