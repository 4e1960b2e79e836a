//! The insert job. What happens to a task that is there already is decided by `domain::insert`, inside the
//! transaction that inserts.

pub(super) mod ask;
mod between;
mod create;
mod existing;
mod given;
mod replace;

use super::{ledger::Ledger, pauses::Pauses, statements::sql};
use crate::Error;
use ask::{Ask, Context, InsertedRow, Row};
use existing::Standing;
use punctual_domain::{
    insert::{Decision, Existing, decide},
    task::Task,
};
use sqlx::MySqlConnection;
use std::collections::HashMap;

/// Returns the results in the order of the request. After `RowNotFound`, another transaction was faster, and the
/// caller runs it again.
pub(crate) async fn insert(
    conn: &mut MySqlConnection,
    ledger: &mut Ledger,
    (context, pauses): (&Context, &Pauses),
    asks: &[&Ask],
) -> sqlx::Result<Vec<InsertedRow>> {
    are_in_time(conn, asks).await?;
    let numbered = asks.iter().enumerate();
    let mut rows: Vec<Row<'_>> =
        numbered.map(|(nth, ask)| Row { nth, ask, id: ask.id, task_id: ask.task_id }).collect();
    given::pass_over_taken(conn, context, &mut rows).await?;
    let mut insert_results: Vec<(usize, InsertedRow)> = Vec::with_capacity(asks.len());
    for round in rounds(&rows) {
        insert_results.extend(one_round(conn, ledger, pauses, round).await?);
    }
    insert_results.sort_unstable_by_key(|insert_result| insert_result.0);
    Ok(insert_results.into_iter().map(|insert_result| insert_result.1).collect())
}

/// Of jobs that came together the writer finds the one that is late, and runs the others without it. An engine that is frozen after
/// this, and before its commit, has lost its connection by then (`set_writer_timeout`), and with it the transaction.
async fn are_in_time(conn: &mut MySqlConnection, asks: &[&Ask]) -> sqlx::Result<()> {
    let Some(earliest) = asks.iter().filter_map(|ask| ask.task().insert_by).min() else { return Ok(()) };
    let now_ms: i64 = sqlx::query_scalar(sql!(insert, read_clock)).fetch_one(conn).await?;
    if now_ms > earliest.0 { Err(sqlx::Error::Encode(Box::new(Error::InsertOver))) } else { Ok(()) }
}

/// Rows of one id stand in different rounds, in their order: versions in one batch see each other.
fn rounds<'a>(rows: &[Row<'a>]) -> Vec<Vec<Row<'a>>> {
    let mut rounds: Vec<Vec<Row<'_>>> = vec![Vec::with_capacity(rows.len())];
    let mut times: HashMap<(&str, i64), usize> = HashMap::new();
    for row in rows {
        let mut round = 0;
        // The engine's ids differ from each other and from all that are stored.
        if !row.ask.task.is_anonymous() {
            let times = times.entry((row.ask.namespace(), row.task_id)).or_default();
            round = *times;
            *times += 1;
        }
        match rounds.get_mut(round) {
            Some(of) => of.push(*row),
            None => rounds.push(vec![*row]),
        }
    }
    rounds
}

async fn one_round(
    conn: &mut MySqlConnection,
    ledger: &mut Ledger,
    pauses: &Pauses,
    mut rows: Vec<Row<'_>>,
) -> sqlx::Result<Vec<(usize, InsertedRow)>> {
    rows.sort_unstable_by_key(Row::key);
    let mut existing = existing::existing(conn, &rows).await?;
    let (mut created, mut replaced, mut insert_results) =
        (Vec::new(), Vec::new(), Vec::with_capacity(rows.len()));
    for mut row in rows {
        let Standing { task_id, task: stored } = existing.remove(&row.nth).unwrap_or_default();
        row.task_id = task_id.unwrap_or(row.task_id);
        match (decided(&row, stored.as_ref()), stored) {
            (Decision::Create, _) | (_, None) => created.push(row),
            (Decision::Replace, Some(task)) => replaced.push((row, task)),
            (decision, Some(task)) => {
                insert_results.push((row.nth, InsertedRow::Stands(decision, Box::new(task))))
            }
        }
    }
    create::create(conn, ledger, pauses, &created).await?;
    insert_results.extend(
        created.iter().map(|row| (row.nth, InsertedRow::Created { id: row.id, task_id: row.task_id })),
    );
    for (row, task) in replace::replace(conn, ledger, pauses, replaced).await? {
        insert_results.push((row.nth, InsertedRow::Stands(Decision::Replace, Box::new(task))));
    }
    Ok(insert_results)
}

fn decided(row: &Row<'_>, stored: Option<&Task>) -> Decision {
    if stored.is_some_and(|task| task.ask.key != row.ask.task.key) {
        return Decision::Exists;
    }
    let version = row.ask.task.task_version;
    let highest_version = stored.map(|task| task.ask.task_version);
    let same_version = stored.filter(|task| task.ask.task_version == version).map(|task| task.state);
    row.ask.task.on_conflict.on(decide(version, Existing { same_version, highest_version }))
}
