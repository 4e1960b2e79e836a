//! Along what a search over all databases walks, the newest first: all ids, or only those that are entered under a label.
//! Either way a position is an id, so that a walk may change from one to the other between two pages.

use super::{Inner, labels, lookup, statements::sql};
use crate::Error;
use punctual_contract::store::Along;
use punctual_domain::name::Name;
use sqlx::Row as _;

/// Most ids that one look may pass over, and most entries: each is found by several keys.
const IDS_MAX: i64 = 20_000;
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
        inner: &Inner,
        namespace: Option<&Name>,
        queue: Option<&Name>,
        label: Option<&(String, String)>,
        dead: bool,
    ) -> Result<Self, Error> {
        let Some(namespace) = namespace else { return Ok(Self::Ids) };
        if let Some((key, value)) = label
            && is_everywhere(inner, (namespace, queue), Some(key)).await?
        {
            return Ok(Self::Term(lookup::term(namespace.as_str(), key, value), Along::Label));
        }
        if dead && is_everywhere(inner, (namespace, queue), None).await? {
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
    pub(super) async fn newest_below(self, inner: &Inner, id: i64) -> sqlx::Result<Option<i64>> {
        let mut newest = None;
        for shard in inner.members() {
            let asked = match self {
                Self::Ids => sqlx::query(super::statements::BELOW),
                Self::Term(term, _) => sqlx::query(sql!("label/newest.sql")).bind(term),
            };
            let found = asked.bind(id).fetch_one(&mut *shard.readers.acquire().await?).await?;
            newest = newest.max(found.try_get::<Option<i64>, _>(0)?);
        }
        Ok(newest)
    }

    /// How far down one look goes that begins with an id.
    pub(super) async fn floor(self, inner: &Inner, newest: i64) -> sqlx::Result<i64> {
        let Self::Term(term, _) = self else { return Ok(newest.saturating_sub(IDS_MAX - 1)) };
        let mut floor = i64::MIN;
        for shard in inner.members() {
            let asked = sqlx::query(sql!("label/floor.sql")).bind(term).bind(newest.saturating_add(1));
            let asked = asked.bind(ENTRIES_MAX - 1);
            if let Some(found) = asked.fetch_optional(&mut *shard.readers.acquire().await?).await? {
                floor = floor.max(found.try_get(0)?);
            }
        }
        Ok(floor)
    }
}

/// All that could match is entered, in each database: what has the label, or the dead.
async fn is_everywhere(
    inner: &Inner,
    (namespace, queue): (&Name, Option<&Name>),
    label: Option<&String>,
) -> sqlx::Result<bool> {
    for shard in inner.members() {
        let mut conn = shard.readers.acquire().await?;
        let is_whole = match label {
            Some(label) => labels::is_whole(&mut conn, namespace, queue, label).await?,
            None => sqlx::query(sql!("label/dead_whole.sql")).fetch_optional(&mut *conn).await?.is_some(),
        };
        if !is_whole {
            return Ok(false);
        }
    }
    Ok(true)
}
