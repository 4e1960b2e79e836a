//! The lookups of tasks, in addition to their ids: the labels that their queues have declared, the fact that they are
//! dead, and the time when they are over (`retention::ahead`). An entry is a number made of a label and the task's
//! id; different labels may make the same number, so the task's row is read. Must not decide what is declared: the
//! database in whose transaction it is entered does (`pauses`).

use super::{
    row,
    statements::{Many, bind, sql},
};
use punctual_domain::place::TaskRef;
use sqlx::{MySqlConnection, mysql::MySqlArguments};
use std::collections::BTreeMap;

static ADD: Many = Many::new(sql!(labels, add_terms));

/// A durable format: what is entered is found by the same number. FNV-1a, finished with splitmix64.
pub(crate) fn term(namespace: &str, key: &str, value: &str) -> i64 {
    let parts = [namespace, key, value].into_iter().flat_map(|text| text.bytes().chain([0]));
    let fnv = parts.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let a = (fnv ^ (fnv >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (b ^ (b >> 31)).cast_signed()
}

/// The number for the dead tasks of a namespace: no label has this number, because a namespace has a name.
pub(crate) fn dead(namespace: &str) -> i64 {
    term("", "dead", namespace)
}

/// The number for tasks that are over in a slice of time and were finished long before they were due
/// (`retention::ahead`), in all namespaces.
pub(crate) fn over(slice: i64) -> i64 {
    term("", "over", &slice.to_string())
}

/// The entries under which tasks are found.
#[derive(Debug, Default)]
pub(crate) struct Entries(Vec<(i64, TaskRef)>);

impl Entries {
    /// `declared`: by the queue of the task.
    pub(crate) fn labels(
        &mut self,
        place: TaskRef,
        namespace: &str,
        declared: &[String],
        labels: &BTreeMap<String, String>,
    ) {
        for key in declared {
            if let Some(value) = labels.get(key) {
                self.0.push((term(namespace, key, value), place));
            }
        }
    }

    pub(crate) fn dead(&mut self, place: TaskRef, namespace: &str) {
        self.0.push((dead(namespace), place));
    }

    pub(crate) fn over(&mut self, place: TaskRef, term: i64) {
        self.0.push((term, place));
    }

    pub(crate) async fn add(mut self, conn: &mut MySqlConnection) -> sqlx::Result<()> {
        // Always in the same order, so that transactions wait for each other and do not lock each other out.
        self.0.sort_unstable_by_key(|pair| (pair.0, pair.1.id));
        for (part, text) in ADD.parts(&self.0) {
            let mut values = MySqlArguments::default();
            for (term, place) in part {
                bind!(values, *term, place.id, row::partition_no(place.partition));
            }
            sqlx::query_with(text, values).execute(&mut *conn).await?;
        }
        Ok(())
    }
}

/// Deletes the entries of a task that has other labels now.
pub(crate) async fn gone(conn: &mut MySqlConnection, place: TaskRef) -> sqlx::Result<()> {
    let partition = row::partition_no(place.partition);
    sqlx::query(sql!(labels, delete_terms)).bind(partition).bind(place.id).execute(conn).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_is_always_the_same_number_and_that_of_no_other_label() {
        assert_eq!(term("default", "customer", "42"), 3_516_156_015_115_028_085);
        let others = [("a", "b", "c"), ("ab", "", "c"), ("a", "bc", ""), ("a", "b", "d"), ("", "ab", "c")];
        let mut terms: Vec<i64> = others.map(|(a, b, c)| term(a, b, c)).into();
        terms.sort_unstable();
        terms.dedup();
        assert_eq!(terms.len(), others.len());
    }

    #[test]
    fn only_declared_labels_are_entered() {
        let labels: BTreeMap<_, _> =
            [("a", "1"), ("b", "2")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let mut entries = Entries::default();
        let place = TaskRef {
            partition: punctual_domain::place::Partition(1),
            due_at: punctual_domain::time::Millis(2),
            id: 3,
        };
        entries.labels(place, "eu", &["b".to_owned(), "c".to_owned()], &labels);
        assert_eq!(entries.0, [(term("eu", "b", "2"), place)]);
    }
}
