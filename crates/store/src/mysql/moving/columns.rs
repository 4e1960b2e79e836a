//! The columns that a copy of a task has, and the statements that write copies. A column that is missing here is lost with the
//! next move: a test compares them with the table.

use crate::mysql::statements::{Many, sql};

/// The type under which a column of `task` is copied.
#[derive(Clone, Copy, Debug)]
pub(super) enum FailureKind {
    Int,
    Text,
    Bytes,
}

/// The columns of `task`, in the order in which they are read and written.
pub(super) const COLUMNS: [(&str, FailureKind); 39] = {
    use FailureKind::{Bytes, Int, Text};
    [
        ("partition_no", Int),
        ("due_at", Int),
        ("id", Int),
        ("namespace", Text),
        ("task_id", Int),
        ("task_version", Int),
        ("queue", Text),
        ("kind", Text),
        ("priority", Int),
        ("state", Int),
        ("fence", Int),
        ("attempt", Int),
        ("max_attempts", Int),
        ("execute_at", Int),
        ("fired_at", Int),
        ("created_at", Int),
        ("updated_at", Int),
        ("keep_until", Int),
        ("place_due_at", Int),
        ("timeout_ms", Int),
        ("deadline_ms", Int),
        ("lease_executor", Text),
        ("lease_since", Int),
        ("lease_until", Int),
        ("cancel_requested", Int),
        ("retry", Text),
        ("labels", Text),
        ("traceparent", Text),
        ("demands", Text),
        ("progress", Text),
        ("log", Text),
        ("result_code", Int),
        ("result_msg", Text),
        ("result_is_json", Int),
        ("result_body", Bytes),
        ("last_error", Text),
        ("payload_is_json", Int),
        ("payload", Bytes),
        ("history", Text),
    ]
};

pub(super) static INSERT: Many = Many::new(sql!(moving, insert_rows));
pub(super) static TAKEN: Many = Many::new(sql!(moving, insert_taken_along));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_columns_of_a_task_are_summed_and_copied() {
        let migration = include_str!("../../../../../migrations/mysql/0001_tasks.sql");
        let table = migration.split_once("EXISTS task (").unwrap().1.split_once("PRIMARY KEY").unwrap().0;
        // Of 0004_control. What 0005_room adds says nothing, and each row has its own.
        let added = ["demands", "log"];
        let columns: Vec<&str> = table
            .lines()
            .map(str::trim)
            .filter(|text| !text.is_empty() && !text.starts_with("--"))
            .map(|text| text.split(' ').next().unwrap())
            .chain(added)
            .collect();
        assert_eq!(columns.len(), COLUMNS.len());
        assert!(columns.iter().all(|column| COLUMNS.iter().any(|known| known.0 == *column)));
        let listed = COLUMNS.map(|column| column.0).join(", ");
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words(sql!(moving, insert_rows)).contains(&format!("( {listed} )")));
        let read = COLUMNS.map(|column| format!("task.{}", column.0)).join(", ");
        assert!(words(sql!(moving, read_rows)).contains(&format!("SELECT {read}, body.payload")));
        let sum = |text: &str| {
            words(text.split_once("CONV(LEFT(SHA2(").unwrap().1.split_once("AS UNSIGNED").unwrap().0)
        };
        let (of_piece, of_row) = (sum(sql!(moving, sum_piece)), sum(sql!(moving, list_row_sums)));
        assert_eq!(of_piece, of_row);
        for (column, _) in COLUMNS.iter().skip(1) {
            let is_there = |text: &str| {
                text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
                    .any(|part| part == *column)
            };
            assert!(is_there(&of_piece), "{column}");
        }
    }
}
