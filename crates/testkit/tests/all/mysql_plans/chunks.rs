//! What a server reads of the chunks of ids in which queues have tasks: a bounded number of rows of one queue, however many there are.

use super::{Filled, check_search, with};

/// A few rows, and those in which the server says how many there were.
const SMALL: u64 = 50;

/// Where the tasks of queues are: two thousand chunks, in each rows of two kinds by four writers, and of other queues.
pub(super) async fn check(database: &Filled) {
    database
        .sql(
            "INSERT INTO task_chunk (namespace, queue, chunk, kind, slot, noted_at) \
             SELECT 'default', 'mail', seq DIV 8, CONCAT('k', seq DIV 4 % 2), seq % 4, 1 FROM seq_0_to_15999 \
             UNION ALL SELECT 'default', '*', seq * 10, '', 1, 1 FROM seq_0_to_199 \
             UNION ALL SELECT 'default', CONCAT('q', seq), seq, 'k', 1, 1 FROM seq_0_to_1999 \
             UNION ALL SELECT 'default', '', seq, '', 1, 1 FROM seq_0_to_1999",
        )
        .await;
    let values = |of: &[&str]| of.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let newest = |queue: &str, kind: &str| {
        values(&["'default'", queue, "1500", kind, kind, "20", "'default'", "1500", "20", "20"])
    };
    // Twenty chunks of the queue and of any, a row of each kind and writer, and once more each to put them in order.
    for values in [newest("'mail'", "NULL"), newest("'mail'", "'k1'"), newest("''", "NULL")] {
        check_bounded(database, "labels/list_newest_chunks", &values, 20 * 8 + 20 + 200).await;
    }
    check_search(database, "labels/read_chunks_below", &[], SMALL).await;
    check_search(database, "labels/lock_chunks_below", &[], SMALL).await;
    check_search(database, "labels/advance_chunks", &values(&["5"]), SMALL).await;
    check_bounded(database, "labels/begin_chunks", &[], SMALL).await;
    check_bounded(database, "doctor/restart_chunks", &[], SMALL).await;
    check_search(database, "labels/find_next_queue", &values(&["'default'", "'default'", "'mail'"]), SMALL)
        .await;
    check_search(database, "labels/find_next_chunk", &values(&["'default'", "'mail'", "100"]), SMALL).await;
    check_search(database, "query/find_oldest_above", &values(&["1050000"]), SMALL).await;
    let gone = values(&["'default'", "'mail'", "100", "1000", "5", "1000"]);
    check_search(database, "labels/delete_empty_chunks", &gone, 1_000 * 3).await;
    for of_any in ["TRUE", "FALSE"] {
        let batch = values(&[of_any, of_any, "1050000", "1050999"]);
        check_bounded(database, "labels/enter_earlier_chunks", &batch, 1_000 * 25).await;
    }
}

/// As [`check_search`], where a bounded number of rows is put in order.
async fn check_bounded(database: &Filled, name: &str, values: &[String], most: u64) {
    let text = with(name, values);
    let touched = database.rows_touched("DO 0", &text).await;
    assert!(touched <= most, "{name}: {touched} rows, {most} at the most: {:?}", database.plan(&text).await);
}
