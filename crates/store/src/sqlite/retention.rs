//! Ends retention in bounded batches. Deletes nothing that still had to happen: only finished tasks have an end of
//! retention, and a success becomes stopped first. In a file that has archives nothing is deleted here: that comes
//! after archiving (`archive`).

use super::{archive, ledger::Ledger, moves::Moves, row, statements::sql};
use punctual_contract::store::Retired;
use punctual_domain::{
    history::Note,
    place::Partition,
    state::{Event, State},
    time::Millis,
};
use rusqlite::{Connection, Params, Row, params};

/// The author, in the history of stopped tasks.
const BY: &str = "watcher";

struct ExpiredTasks {
    id: i64,
    partition: Partition,
    slot: super::ledger::Slot,
    state: State,
}

/// `stopped_to`: with archives, up to where all successes are stopped already, so that what waits for its archive is not
/// read again each time.
pub(crate) fn retire(
    conn: &Connection,
    ledger: &mut Ledger,
    (now, stopped_until): (Millis, Millis),
    stopped_to: Millis,
    limit: usize,
) -> rusqlite::Result<Retired> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    conn.prepare_cached(sql!(retention, delete_expired_replies))?.execute([now.0, limit])?;
    let mut retired = Retired::default();
    let mut moves = Moves::prepare(conn, now)?;
    let note = Note { by: BY.to_owned(), ..Note::default() };
    let over = match archive::number(conn, archive::PLACE)? {
        Some(_) => {
            over(conn, ledger, sql!(retention, list_expired_successes), params![stopped_to.0, now.0, limit])?
        }
        None => over(conn, ledger, sql!(retention, list_expired), params![now.0, limit])?,
    };
    for over in over {
        if over.state == State::Succeeded {
            let stop = moves.bound(Event::Retire, over.id, None, &note)?;
            stop.raw_bind_parameter(6, stopped_until.0)?;
            if stop.raw_execute()? == 1 {
                retired.stopped += 1;
                // What is finished waits no more.
                ledger.moved((over.slot, over.state), (over.slot, Event::Retire.target()), 0);
            }
        } else if conn.prepare_cached(sql!(retention, delete_finished))?.execute([over.id])? == 1 {
            retired.deleted += 1;
            conn.prepare_cached(sql!(insert, delete_body))?.execute([over.id])?;
            ledger.deleted((over.partition, over.id), over.slot, over.state, 0);
        }
    }
    Ok(retired)
}

fn over(
    conn: &Connection,
    ledger: &mut Ledger,
    text: &str,
    values: impl Params,
) -> rusqlite::Result<Vec<ExpiredTasks>> {
    let mut statement = conn.prepare_cached(text)?;
    let over = |row: &Row<'_>| {
        let slot = ledger.slot(row.get_ref(1)?.as_str()?, row.get_ref(2)?.as_str()?);
        let (id, partition) = (row.get(0)?, Partition(row.get(4)?));
        Ok(ExpiredTasks { id, partition, slot, state: row::state(row, 3)? })
    };
    statement.query_map(values, over)?.collect()
}
