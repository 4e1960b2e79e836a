//! The partitions of a database by its own table, which is authoritative: the placement in the catalog, and an
//! engine's memory of it, only tell where to ask. A transaction that writes holds its partitions here until it ends;
//! a read checks afterwards that it was at the right place.

use super::{row, statements::sql};
use crate::subject::filled;
use futures_util::TryStreamExt as _;
use punctual_domain::place::Partition;
use sqlx::{AssertSqlSafe, Either, MySqlConnection, Row as _, mysql::MySqlRow};
use std::{collections::BTreeSet, fmt::Write as _};

/// A state in table `hosted`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub(crate) enum HostedState {
    Open = 1,
    Closed = 2,
    Arriving = 3,
    Left = 4,
}

/// The partitions in which a transaction will write.
#[derive(Debug, Default)]
pub(crate) struct WritePartitions {
    pub(crate) these: BTreeSet<Partition>,
    /// It finds others on its way, and writes in those that are open.
    pub(crate) any: bool,
    /// It hands tasks over, or stores some with labels: what is paused and what labels are declared must stay as they are
    /// until it ends.
    pub(crate) epoch: bool,
}

/// The rows that a transaction has locked until it ends.
#[derive(Debug)]
pub(crate) struct Begun {
    /// Partitions in which it may write: of the wanted ones, or all.
    pub(crate) open: BTreeSet<Partition>,
    /// The epoch of pauses and declared labels, if it was requested.
    pub(crate) pause_epoch: Option<i64>,
    /// The rows of the first read.
    pub(crate) found: Vec<MySqlRow>,
}

/// Begins a transaction in one round trip, with a first read: a text without parameters, of one statement.
pub(crate) async fn begin(
    conn: &mut MySqlConnection,
    wanted: &WritePartitions,
    look: Option<&str>,
) -> sqlx::Result<Begun> {
    let mut text = if wanted.any {
        sql!(hosted, begin_on_all).to_owned()
    } else if wanted.these.is_empty() {
        // Of no partition that there is: nothing to hold, and nothing to find.
        "BEGIN".to_owned()
    } else {
        filled(sql!(hosted, begin_on_some), "{partitions}", &list(&wanted.these))
    };
    if wanted.epoch {
        let _ = write!(text, ";\n{}", sql!(settings, hold_pause_epoch));
    }
    if let Some(look) = look {
        let _ = write!(text, ";\n{look}");
    }
    let mut answers = answers(conn, text).await?;
    let found = if look.is_some() { answers.pop().unwrap_or_default() } else { Vec::new() };
    let epoch = if wanted.epoch { answers.pop().unwrap_or_default().pop() } else { None };
    let pause_epoch = epoch.map(|epoch| epoch.try_get("pause_epoch")).transpose()?;
    if wanted.epoch && pause_epoch.is_none() {
        return Err(sqlx::Error::RowNotFound);
    }
    let open = answers.iter().flatten().map(|row| row::partition(row, 0)).collect::<sqlx::Result<_>>()?;
    Ok(Begun { open, pause_epoch, found })
}

/// The rows of each statement of a text.
pub(crate) async fn answers(conn: &mut MySqlConnection, text: String) -> sqlx::Result<Vec<Vec<MySqlRow>>> {
    let (mut answers, mut rows) = (Vec::new(), Vec::new());
    let mut coming = sqlx::raw_sql(AssertSqlSafe(text)).fetch_many(conn);
    while let Some(either) = coming.try_next().await? {
        match either {
            Either::Left(_) => answers.push(std::mem::take(&mut rows)),
            Either::Right(row) => rows.push(row),
        }
    }
    Ok(answers)
}

/// Joins the partitions with commas.
pub(crate) fn list(partitions: &BTreeSet<Partition>) -> String {
    let mut list = String::with_capacity(partitions.len() * 6);
    for partition in partitions {
        let comma = if list.is_empty() { "" } else { "," };
        let _ = write!(list, "{comma}{}", partition.0);
    }
    list
}

/// Returns the partitions that this database does not have: earlier reads of them were at the wrong place, or may
/// have been.
pub(crate) async fn missing(
    conn: &mut MySqlConnection,
    partitions: impl IntoIterator<Item = Partition>,
) -> sqlx::Result<BTreeSet<Partition>> {
    let mut missing: BTreeSet<Partition> = partitions.into_iter().collect();
    if missing.is_empty() {
        return Ok(missing);
    }
    let wanted = format!("[{}]", list(&missing));
    for rows in sqlx::query(sql!(hosted, filter_hosted)).bind(wanted).fetch_all(conn).await? {
        missing.remove(&row::partition(&rows, 0)?);
    }
    Ok(missing)
}

/// The question of `missing`, as a part of a text of several statements. A row for each partition that is here.
pub(crate) fn here_text(partitions: &BTreeSet<Partition>) -> String {
    sql!(hosted, filter_hosted).replacen('?', &format!("'[{}]'", list(partitions)), 1)
}

/// All that this database has.
pub(crate) async fn here(conn: &mut MySqlConnection) -> sqlx::Result<BTreeSet<Partition>> {
    let rows = sqlx::query(sql!(hosted, list_hosted)).fetch_all(conn).await?;
    rows.iter().map(|row| row::partition(row, 0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_listed_with_commas_between() {
        assert_eq!(list(&[Partition(7), Partition(0), Partition(65_535)].into()), "0,7,65535");
        assert_eq!(list(&BTreeSet::new()), "");
    }
}
