//! Along what a search walks, the newest first: all ids, the chunks of ids in which a queue has tasks, or only what is entered under a
//! label. A position is an id either way, so that a walk may change from one to the other between two pages.

use super::statements::sql;
use crate::chunks;
use punctual_contract::store::Along;
use punctual_domain::name::Name;
use rusqlite::{Connection, OptionalExtension as _, params};
use std::{collections::BTreeSet, ops::RangeInclusive};

/// The maximum number of ids that one read passes over, and of entries.
pub(crate) const IDS_MAX: i64 = 20_000;
const ENTRIES_MAX: i64 = 20_000;

pub(crate) enum SqliteWalk {
    Ids,
    Chunks(Chunks),
    /// Namespace, and `key=value`.
    Label(String, String),
    /// The dead tasks of a namespace.
    Dead(String),
}

pub(crate) struct Chunks {
    namespace: String,
    /// Empty: any.
    queue: String,
    kind: Option<String>,
    /// Below this id nothing is entered yet: there all ids are walked.
    below: i64,
}

/// Tasks below this id are not entered in chunks; 0: all are.
pub(crate) fn not_entered_below(conn: &Connection) -> rusqlite::Result<i64> {
    conn.prepare_cached(sql!(ledger, read_meta))?.query_row(["chunks_below"], |value| value.get(0))
}

impl SqliteWalk {
    /// Selects the shortest walk that finds all that could match. `dead` states that nothing else is searched.
    pub(crate) fn of(
        conn: &Connection,
        namespace: Option<&Name>,
        (queue, kind): (Option<&Name>, Option<&Name>),
        label: Option<&(String, String)>,
        dead: bool,
    ) -> rusqlite::Result<Self> {
        let Some(namespace) = namespace.map(Name::as_str) else { return Ok(Self::Ids) };
        let found = |text, params: &[&str]| -> rusqlite::Result<bool> {
            conn.prepare_cached(text)?.exists(rusqlite::params_from_iter(params))
        };
        if let Some((key, value)) = label {
            let is_whole = match queue {
                Some(queue) => found(sql!(labels, is_complete), &[namespace, queue.as_str(), key])?,
                None => !found(sql!(labels, has_incomplete_queue), &[namespace, key])?,
            };
            if is_whole {
                return Ok(Self::Label(namespace.to_owned(), format!("{key}={value}")));
            }
        }
        if dead {
            return Ok(Self::Dead(namespace.to_owned()));
        }
        Ok(Self::Chunks(Chunks {
            namespace: namespace.to_owned(),
            queue: queue.map(|queue| queue.as_str().to_owned()).unwrap_or_default(),
            kind: queue.and(kind).map(|name| name.as_str().to_owned()),
            below: not_entered_below(conn)?,
        }))
    }

    pub(crate) fn along(&self) -> Along {
        match self {
            Self::Chunks(chunks) if !chunks.queue.is_empty() => Along::Chunks,
            Self::Ids | Self::Chunks(_) => Along::Ids,
            Self::Label(..) => Along::Label,
            Self::Dead(_) => Along::Dead,
        }
    }

    /// It walks ids, all or in chunks.
    pub(crate) const fn is_of_ids(&self) -> bool {
        matches!(self, Self::Ids | Self::Chunks(_))
    }

    /// The ids below an id that a read passes through, the newest first; empty at the end.
    pub(crate) fn look(&self, conn: &Connection, before: i64) -> rusqlite::Result<Vec<RangeInclusive<i64>>> {
        if let Self::Chunks(chunks) = self {
            return chunks.look(conn, before);
        }
        let Some(newest) = self.newest_below(conn, before)? else { return Ok(Vec::new()) };
        Ok(vec![self.floor(conn, newest)?..=newest])
    }

    /// The newest below an id that it could meet.
    pub(crate) fn newest_below(&self, conn: &Connection, id: i64) -> rusqlite::Result<Option<i64>> {
        match self {
            Self::Ids => newest_below(conn, id),
            Self::Chunks(chunks) => Ok(chunks.look(conn, id)?.first().map(|range| *range.end())),
            Self::Label(namespace, label) => conn
                .prepare_cached(sql!(labels, find_newest))?
                .query_row(params![namespace, label, id], |row| row.get(0)),
            Self::Dead(namespace) => conn
                .prepare_cached(sql!(labels, find_newest_dead))?
                .query_row(params![namespace, id], |value| value.get(0)),
        }
    }

    /// The lowest id of one read that begins with an id.
    fn floor(&self, conn: &Connection, newest: i64) -> rusqlite::Result<i64> {
        let (below, skipped) = (newest.saturating_add(1), ENTRIES_MAX - 1);
        let found: Option<i64> = match self {
            Self::Ids | Self::Chunks(_) => return Ok(newest.saturating_sub(IDS_MAX - 1)),
            Self::Label(namespace, label) => conn
                .prepare_cached(sql!(labels, find_label_bound))?
                .query_row(params![namespace, label, below, skipped], |row| row.get(0))
                .optional()?,
            Self::Dead(namespace) => conn
                .prepare_cached(sql!(labels, find_dead_bound))?
                .query_row(params![namespace, below, skipped], |row| row.get(0))
                .optional()?,
        };
        Ok(found.unwrap_or(i64::MIN))
    }

    /// The number of examined ids, or of entries: of those only the number of found ones is known.
    pub(crate) fn examined(&self, looked: &[RangeInclusive<i64>], full: Option<i64>, found: usize) -> u64 {
        if self.is_of_ids() {
            return chunks::examined(looked, full);
        }
        u64::try_from(found).unwrap_or(u64::MAX)
    }

    /// One of three texts.
    pub(crate) const fn text(&self, [ids, label, dead]: [&'static str; 3]) -> &'static str {
        match self {
            Self::Ids | Self::Chunks(_) => ids,
            Self::Label(..) => label,
            Self::Dead(_) => dead,
        }
    }

    /// `key=value`, where it is along a label.
    pub(crate) fn label(&self) -> Option<&str> {
        match self {
            Self::Ids | Self::Chunks(_) | Self::Dead(_) => None,
            Self::Label(_, label) => Some(label),
        }
    }
}

fn newest_below(conn: &Connection, id: i64) -> rusqlite::Result<Option<i64>> {
    conn.prepare_cached(sql!(query, find_newest_below))?.query_row([id], |value| value.get(0))
}

impl Chunks {
    fn look(&self, conn: &Connection, before: i64) -> rusqlite::Result<Vec<RangeInclusive<i64>>> {
        let first = chunks::of(before.saturating_sub(1));
        let most = i64::try_from(chunks::LOOK).unwrap_or(i64::MAX);
        let mut all = BTreeSet::new();
        for (queue, kind) in [(self.queue.as_str(), self.kind.as_deref()), (chunks::ANY, None)] {
            let asked = params![self.namespace, queue, first, kind, most];
            let mut newest = conn.prepare_cached(sql!(labels, list_newest_chunks))?;
            for result in newest.query_map(asked, |row| row.get(0))? {
                all.insert(result?);
            }
        }
        let entered: Vec<i64> = all.into_iter().rev().take(chunks::LOOK).collect();
        let mut ranges = chunks::ranges(&entered, before, self.below);
        if chunks::reach(&entered, self.below) {
            let newest = newest_below(conn, before.min(self.below))?;
            ranges.extend(newest.map(|newest| newest.saturating_sub(IDS_MAX - 1)..=newest));
        }
        Ok(ranges)
    }
}
