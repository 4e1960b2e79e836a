//! A task that replaces a stored one: the move that only an insert makes. Rare, hence one by one.

use super::{ask::Row, create::keep_body};
use crate::{
    extras,
    mysql::{
        ledger::Ledger,
        lookup::{self, Entries},
        parameters::wanted,
        pauses::Pauses,
        query::{self, Hold},
        row,
        statements::sql,
    },
};
use punctual_domain::{
    history::{self, Note},
    place::TaskRef,
    state::Event,
    task::Task,
};
use sqlx::MySqlConnection;

/// Each row with the task that it replaces, which is locked. Answers the tasks as they are now.
pub(super) async fn replace<'a>(
    conn: &mut MySqlConnection,
    ledger: &mut Ledger,
    pauses: &Pauses,
    replaced: Vec<(Row<'a>, Task)>,
) -> sqlx::Result<Vec<(Row<'a>, Task)>> {
    let mut entries = Entries::default();
    for (row, task) in &replaced {
        one(conn, ledger, row, task).await?;
        if !task.ask.labels.is_empty() {
            lookup::gone(conn, task.place).await?;
        }
        row.entered(&mut entries, pauses, task.place);
    }
    entries.add(conn).await?;
    let places: Vec<TaskRef> = replaced.iter().map(|pair| pair.1.place).collect();
    let tasks = query::read(conn, &places, Hold::Nothing).await?;
    let now = replaced.into_iter().zip(tasks);
    now.map(|((row, _), task)| Ok((row, task.ok_or(sqlx::Error::RowNotFound)?))).collect()
}

async fn one(conn: &mut MySqlConnection, ledger: &mut Ledger, row: &Row<'_>, old: &Task) -> sqlx::Result<()> {
    if update(conn, row, old).await? == 0 {
        return Err(sqlx::Error::RowNotFound);
    }
    let (place, new) = (old.place, &row.ask.task);
    let partition = row::partition_no(place.partition);
    if row.ask.due_at() != old.due_at {
        let now_at = TaskRef { due_at: row.ask.due_at(), ..place };
        sqlx::query(sql!(moves, save_places)).bind(wanted(&[now_at])).execute(&mut *conn).await?;
    }
    if row::inline(&new.payload).is_none() {
        keep_body(conn, place, &new.payload.bytes).await?;
    } else if row::inline(&old.ask.payload).is_none() {
        sqlx::query(sql!(insert, delete_body)).bind(partition).bind(place.id).execute(&mut *conn).await?;
    }
    let namespace = new.queue.namespace.as_str();
    let names = [namespace, new.queue.queue.as_str(), new.kind.as_str()];
    ledger.chunks.enter(names, place.id);
    let (was, is) = (row::size(&old.ask.payload), row::size(&new.payload));
    ledger.moved((namespace, old.ask.queue.queue.as_str()), Some(old.state), None, was);
    ledger.moved((namespace, new.queue.queue.as_str()), None, Some(Event::Replace.target()), is);
    Ok(())
}

async fn update(conn: &mut MySqlConnection, row: &Row<'_>, old: &Task) -> sqlx::Result<u64> {
    let (new, now, due_at) = (&row.ask.task, row.ask.now, row.ask.due_at());
    let note = Note { by: (*row.ask.by).to_owned(), due_at: Some(due_at), ..Note::default() };
    let line = history::line(now, Some(Event::Replace), &note);
    let done = sqlx::query(sql!(insert, replace))
        .bind(new.queue.queue.as_str())
        .bind(new.kind.as_str())
        .bind(new.priority.level())
        .bind(i64::from(new.max_attempts))
        .bind(new.execute_at.0)
        .bind(new.timeout_ms)
        .bind(new.deadline_ms)
        .bind(row::retry_text(&new.retry))
        .bind(row::labels_text(&new.labels))
        .bind(new.traceparent.as_deref())
        .bind(extras::text(new))
        .bind(i64::from(new.payload.code()))
        .bind(row::inline(&new.payload))
        .bind(now.0)
        .bind(line.head)
        .bind(line.tail)
        .bind(due_at.0)
        .bind(row::partition_no(old.place.partition))
        .bind(old.due_at.0)
        .bind(old.place.id)
        .execute(conn)
        .await?;
    Ok(done.rows_affected())
}

#[cfg(test)]
mod tests {
    use crate::subject::tests::whole;
    use punctual_domain::{
        history::HISTORY_LEN_MAX,
        state::{Event, State},
    };

    #[test]
    fn the_statement_leaves_the_states_of_the_table_and_no_others() {
        let file = whole("mysql/insert", "replace");
        let mut codes: Vec<u8> = Event::Replace.sources().iter().map(|source| State::code(*source)).collect();
        codes.sort_unstable();
        let codes: Vec<String> = codes.iter().map(u8::to_string).collect();
        let (from, to) = (codes.join(", "), Event::Replace.target().code());
        for line in [
            format!("-- moves: replace from ({from}) to {to}\n"),
            format!("    state = {to}\n"),
            format!("AND state IN ({from})\n"),
            format!("LENGTH(history) > {HISTORY_LEN_MAX},"),
        ] {
            assert_eq!(file.matches(&line).count(), 1, "{line}");
        }
    }
}
