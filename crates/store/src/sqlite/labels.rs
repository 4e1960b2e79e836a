//! Labels that queues declare, and the entries of what stood before. What is inserted, replaced or deleted is entered and
//! taken out by the triggers of `task`, in its transaction. And along what a search walks: all ids, or the entries of a label.

use super::{SqliteStore, lanes::Lane, ledger::Ledger, row, statements as sql};
use async_trait::async_trait;
use punctual_contract::{Error as CallError, LabelStore, labels::LabelIndex, store::Along};
use punctual_domain::{
    name::{Name, QueueKey},
    settings::Setting,
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use std::collections::BTreeSet;

/// Most ids that one look may pass over, and most entries.
pub(crate) const IDS_MAX: i64 = 20_000;
const ENTRIES_MAX: i64 = 20_000;

#[async_trait]
impl LabelStore for SqliteStore {
    async fn label_indexes(&self) -> Result<Vec<LabelIndex>, CallError> {
        self.reading("look how far labels are indexed", Lane::Urgent, progress).await
    }

    async fn index_labels_in(&self, _only_part: usize, limit: usize) -> Result<usize, CallError> {
        let is_left = |conn: &Connection| Ok(progress(conn)?.iter().any(|it| it.below_id.is_some()));
        if !self.reading("look how far labels are indexed", Lane::Urgent, is_left).await? {
            return Ok(0);
        }
        self.maintaining("index labels", limit, move |conn, _: &mut Ledger| batch(conn, limit)).await
    }
}

fn progress(conn: &Connection) -> rusqlite::Result<Vec<LabelIndex>> {
    let index = |it: &Row<'_>| {
        let queue = row::queue_key(it, 0, 1)?;
        Ok(LabelIndex { part: 0, queue, label: it.get(2)?, begun_id: it.get(3)?, below_id: it.get(4)? })
    };
    conn.prepare_cached(sql::LABEL_PROGRESS)?.query_map([], index)?.collect()
}

/// In the transaction that changes what is set for a queue.
pub(crate) fn declare(
    conn: &Connection,
    (namespace, queue): (&str, &str),
    setting: Option<&Setting>,
) -> rusqlite::Result<()> {
    if queue.is_empty() {
        return Ok(());
    }
    let wanted: BTreeSet<&str> = setting.into_iter().flat_map(Setting::indexed_labels).collect();
    let mut of_queue = conn.prepare_cached(sql::LABELS_OF_QUEUE)?;
    let stand = of_queue.query_map([namespace, queue], |it| it.get(0))?;
    let stand: BTreeSet<String> = stand.collect::<rusqlite::Result<_>>()?;
    for label in stand.iter().filter(|it| !wanted.contains(it.as_str())) {
        conn.prepare_cached(sql::LABEL_UNDECLARE)?.execute([namespace, queue, label])?;
    }
    for label in wanted.into_iter().filter(|it| !stand.contains(*it)) {
        conn.prepare_cached(sql::LABEL_DECLARE)?.execute([namespace, queue, label])?;
    }
    Ok(())
}

fn batch(conn: &Connection, limit: usize) -> rusqlite::Result<usize> {
    let left =
        progress(conn)?.into_iter().find_map(|it| it.below_id.map(|below| (it.queue, it.label, below)));
    let Some((QueueKey { namespace, queue }, label, below)) = left else { return Ok(0) };
    let (namespace, queue) = (namespace.as_str(), queue.as_str());
    let newest: Option<i64> = conn.prepare_cached(sql::BELOW)?.query_row([below], |it| it.get(0))?;
    let floor = newest.map(|it| it.saturating_sub(rows(limit) - 1));
    if let (Some(floor), Some(newest)) = (floor, newest) {
        let entered = params![floor, newest, namespace, queue, label];
        conn.prepare_cached(sql::LABEL_ENTER)?.execute(entered)?;
    }
    conn.prepare_cached(sql::LABEL_ADVANCE)?.execute(params![floor, namespace, queue, label])?;
    Ok(if floor.is_some() { limit.max(1) } else { 1 })
}

fn rows(limit: usize) -> i64 {
    i64::try_from(limit.max(1)).unwrap_or(i64::MAX)
}

/// A position is an id either way, so that a walk may change from one to the other between two pages.
pub(crate) enum Walk {
    Ids,
    /// Namespace, and `key=value`.
    Label(String, String),
    /// Of a namespace.
    Dead(String),
}

impl Walk {
    /// The shortest that meets all that could match. `dead`: nothing else is looked for.
    pub(crate) fn of(
        conn: &Connection,
        namespace: Option<&Name>,
        queue: Option<&Name>,
        label: Option<&(String, String)>,
        dead: bool,
    ) -> rusqlite::Result<Self> {
        let Some(namespace) = namespace.map(Name::as_str) else { return Ok(Self::Ids) };
        let otherwise = || if dead { Self::Dead(namespace.to_owned()) } else { Self::Ids };
        let Some((key, value)) = label else { return Ok(otherwise()) };
        let found = |text, params: &[&str]| -> rusqlite::Result<bool> {
            conn.prepare_cached(text)?.exists(rusqlite::params_from_iter(params))
        };
        let is_whole = match queue {
            Some(queue) => found(sql::LABEL_WHOLE, &[namespace, queue.as_str(), key])?,
            None => !found(sql::LABEL_NOT_WHOLE, &[namespace, key])?,
        };
        let label = || Self::Label(namespace.to_owned(), format!("{key}={value}"));
        Ok(if is_whole { label() } else { otherwise() })
    }

    pub(crate) const fn along(&self) -> Along {
        match self {
            Self::Ids => Along::Ids,
            Self::Label(..) => Along::Label,
            Self::Dead(_) => Along::Dead,
        }
    }

    /// The newest below an id that it would meet.
    pub(crate) fn newest_below(&self, conn: &Connection, id: i64) -> rusqlite::Result<Option<i64>> {
        match self {
            Self::Ids => conn.prepare_cached(sql::BELOW)?.query_row([id], |it| it.get(0)),
            Self::Label(namespace, label) => conn
                .prepare_cached(sql::LABEL_NEWEST)?
                .query_row(params![namespace, label, id], |it| it.get(0)),
            Self::Dead(namespace) => {
                conn.prepare_cached(sql::DEAD_NEWEST)?.query_row(params![namespace, id], |it| it.get(0))
            }
        }
    }

    /// How far down one look goes that begins with an id.
    pub(crate) fn floor(&self, conn: &Connection, newest: i64) -> rusqlite::Result<i64> {
        let (below, skipped) = (newest.saturating_add(1), ENTRIES_MAX - 1);
        let found: Option<i64> = match self {
            Self::Ids => return Ok(newest.saturating_sub(IDS_MAX - 1)),
            Self::Label(namespace, label) => conn
                .prepare_cached(sql::LABEL_FLOOR)?
                .query_row(params![namespace, label, below, skipped], |it| it.get(0))
                .optional()?,
            Self::Dead(namespace) => conn
                .prepare_cached(sql::DEAD_FLOOR)?
                .query_row(params![namespace, below, skipped], |it| it.get(0))
                .optional()?,
        };
        Ok(found.unwrap_or(i64::MIN))
    }

    /// One of three texts.
    pub(crate) const fn text(&self, [ids, label, dead]: [&'static str; 3]) -> &'static str {
        match self {
            Self::Ids => ids,
            Self::Label(..) => label,
            Self::Dead(_) => dead,
        }
    }

    /// `key=value`, where it is along a label.
    pub(crate) fn label(&self) -> Option<&str> {
        match self {
            Self::Ids | Self::Dead(_) => None,
            Self::Label(_, label) => Some(label),
        }
    }
}
