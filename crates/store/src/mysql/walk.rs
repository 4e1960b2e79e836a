//! Along what a search over databases walks, the newest first: all ids, or only those that are entered under a label.
//! Either way a position is an id, so that a walk may change from one to the other between two pages.

use super::{Shard, labels, lookup, statements::sql};
use crate::Error;
use punctual_contract::store::Along;
use punctual_domain::name::Name;
use sqlx::Row as _;

/// Most ids that one look may pass over, and most entries: each is found by several keys.
pub(super) const IDS_MAX: i64 = 20_000;
const ENTRIES_MAX: i64 = 5_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Walk {
    Ids,
    /// What is entered under it, and why.
    Term(i64, Along),
}

impl Walk {
    /// The shortest that meets all that could match. `dead`: nothing else is looked for.
    pub(super) async fn of(
        shards: &[&Shard],
        namespace: Option<&Name>,
        queue: Option<&Name>,
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
        Ok(Self::Ids)
    }

    pub(super) const fn along(self) -> Along {
        match self {
            Self::Ids => Along::Ids,
            Self::Term(_, along) => along,
        }
    }

    /// The newest below an id that it would meet.
    pub(super) async fn newest_below(self, shards: &[&Shard], id: i64) -> Result<Option<i64>, Error> {
        let mut newest = None;
        for shard in shards {
            let asked = match self {
                Self::Ids => sqlx::query(super::statements::BELOW),
                Self::Term(term, _) => sqlx::query(sql!("label/newest.sql")).bind(term),
            };
            let newest_here = async {
                let found = asked.bind(id).fetch_one(&mut *shard.readers.acquire().await?).await?;
                found.try_get::<Option<i64>, _>(0)
            };
            newest = newest.max(newest_here.await.map_err(|it| shard.failed(it))?);
        }
        Ok(newest)
    }

    /// How far down one look goes that begins with an id.
    pub(super) async fn floor(self, shards: &[&Shard], newest: i64) -> Result<i64, Error> {
        let Self::Term(term, _) = self else { return Ok(newest.saturating_sub(IDS_MAX - 1)) };
        let mut floor = i64::MIN;
        for shard in shards {
            let asked = sqlx::query(sql!("label/floor.sql")).bind(term).bind(newest.saturating_add(1));
            let asked = asked.bind(ENTRIES_MAX - 1);
            let floor_here = async {
                let found = asked.fetch_optional(&mut *shard.readers.acquire().await?).await?;
                found.map(|it| it.try_get(0)).transpose()
            };
            floor = floor_here.await.map_err(|it| shard.failed(it))?.map_or(floor, |it| floor.max(it));
        }
        Ok(floor)
    }
}

/// The oldest task above an id.
pub(super) async fn oldest_above(shards: &[&Shard], id: i64) -> Result<Option<i64>, Error> {
    let mut oldest: Option<i64> = None;
    for shard in shards {
        let oldest_here = async {
            let asked = sqlx::query(super::statements::ABOVE).bind(id);
            asked.fetch_one(&mut *shard.readers.acquire().await?).await?.try_get::<Option<i64>, _>(0)
        };
        let here = oldest_here.await.map_err(|it| shard.failed(it))?;
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
                None => {
                    Ok(sqlx::query(sql!("label/dead_whole.sql")).fetch_optional(&mut *conn).await?.is_some())
                }
            }
        };
        if !is_whole.await.map_err(|it| shard.failed(it))? {
            return Ok(false);
        }
    }
    Ok(true)
}
