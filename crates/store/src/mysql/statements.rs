//! The files of statements, one a subject, beside the modules that use them; and statements for many rows.
//!
//! Looking up many rows by key is one text for any number of them: the keys come as one JSON parameter, `JSON_TABLE`
//! is joined first (`STRAIGHT_JOIN`), and the plan cannot flip. 6 us a row of the registry, against 11 with a list of
//! ids for each partition, 16 with a chain of ORs, and 380 with lists of partitions and ids. One that locks says of which
//! tables, in a comment that only MySQL reads: asked to lock a `JSON_TABLE` it refuses, and MariaDB does not know the words.

use crate::subject::repeated;
use std::{fmt::Write as _, sync::OnceLock};

crate::subject::subjects!(
    access,
    agenda,
    audit,
    buckets,
    bulk,
    cluster,
    doctor,
    dropped_buckets,
    evaluations,
    executors,
    hosted,
    inbox,
    insert,
    labels,
    lease,
    ledger,
    moves,
    moving,
    namespaces,
    ownership,
    query,
    reply,
    retention,
    scan,
    schedules,
    session,
    settings,
    shards,
    workflows
);

/// The text of a statement: `sql!(lease, extend)` is `extend` in `lease.sql`.
macro_rules! sql {
    ($subject:ident, $name:ident) => {
        const { $crate::mysql::statements::subjects::$subject.statement(stringify!($name)) }
    };
}
pub(crate) use sql;

/// Binds values in order. Encoding numbers, texts and bytes cannot fail, but the driver's interface says it could.
macro_rules! bind {
    ($values:expr, $($value:expr),+ $(,)?) => {{
        use sqlx::Arguments as _;
        $($values.add($value).map_err(sqlx::Error::Encode)?;)+
    }};
}
pub(crate) use bind;

/// A statement with numbers in the places of its parameters, in their order.
pub(crate) fn with_numbers(statement: &str, values: &[i64]) -> String {
    let mut text = String::with_capacity(statement.len() + values.len() * 12);
    let mut values = values.iter();
    for part in statement.split_inclusive('?') {
        match part.strip_suffix('?').zip(values.next()) {
            Some((before, value)) => {
                let _ = write!(text, "{before}{value}");
            }
            None => text.push_str(part),
        }
    }
    text
}

/// The numbers of rows of one statement: few sizes, so that all of them stay prepared on every connection.
const SIZES: [usize; 10] = [500, 250, 100, 50, 25, 10, 5, 3, 2, 1];

/// A statement with a hole for rows, for batches of any length.
#[derive(Debug)]
pub(crate) struct Many {
    one: &'static str,
    texts: OnceLock<[&'static str; SIZES.len()]>,
}

impl Many {
    pub(crate) const fn new(one: &'static str) -> Self {
        Self { one, texts: OnceLock::new() }
    }

    /// The rows in parts of the fixed sizes, each with its text.
    pub(crate) fn parts<'r, T>(&self, rows: &'r [T]) -> impl Iterator<Item = (&'r [T], &'static str)> {
        // Made once for each statement, and never given back: that bounds it.
        let texts = *self.texts.get_or_init(|| SIZES.map(|size| &*repeated(self.one, size).leak()));
        let mut rest = rows;
        std::iter::from_fn(move || {
            let (size, text) = SIZES.iter().zip(texts).find(|pair| *pair.0 <= rest.len())?;
            let (part, left) = rest.split_at(*size);
            rest = left;
            Some((part, text))
        })
    }
}

/// The lengths of the lists of ids in a statement; a list is filled up by repeating its last one.
const LENGTHS: [usize; 4] = [1, 10, 100, LONGEST];
const LONGEST: usize = 500;

/// A statement with a hole for a list of any length.
#[derive(Debug)]
pub(crate) struct Listed {
    one: &'static str,
    texts: OnceLock<[&'static str; LENGTHS.len()]>,
}

impl Listed {
    pub(crate) const fn new(one: &'static str) -> Self {
        Self { one, texts: OnceLock::new() }
    }

    /// The list in parts, each filled up to one of the fixed lengths, with its text.
    pub(crate) fn parts<'r, T>(&self, list: &'r [T]) -> impl Iterator<Item = (Vec<&'r T>, &'static str)> {
        let texts = *self.texts.get_or_init(|| LENGTHS.map(|length| &*repeated(self.one, length).leak()));
        list.chunks(LONGEST).filter_map(move |part| {
            let (length, text) = LENGTHS.iter().zip(texts).find(|pair| *pair.0 >= part.len())?;
            let filled = part.iter().chain(part.last().into_iter().cycle());
            Some((filled.take(*length).collect(), text))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::row::TASK_COLUMNS;

    #[test]
    fn numbers_stand_in_the_places_of_parameters() {
        assert_eq!(with_numbers("a = ? AND b < ? LIMIT 1", &[-3, 7]), "a = -3 AND b < 7 LIMIT 1");
    }

    #[test]
    fn every_row_is_in_one_part() {
        let many = Many::new("VALUES {rows: (?)}");
        for len in [0, 1, 2, 9, 10, 99, 100, 101, 1_234] {
            let rows: Vec<usize> = (0..len).collect();
            let parts: Vec<_> = many.parts(&rows).collect();
            assert_eq!(parts.iter().flat_map(|part| part.0).copied().collect::<Vec<_>>(), rows);
            assert!(parts.iter().all(|(part, text)| text.matches('?').count() == part.len()));
            assert!(parts.len() <= len / 100 + 9, "{len}: {}", parts.len());
        }
    }

    #[test]
    fn a_list_is_filled_up_by_its_last() {
        let many = Listed::new("WHERE a IN ({list: ?}) AND b = ?");
        let list: Vec<usize> = (0..503).collect();
        let parts: Vec<_> = many.parts(&list).collect();
        assert_eq!(parts.iter().map(|part| part.0.len()).collect::<Vec<_>>(), [500, 10]);
        assert_eq!(parts[1].0, [&500, &501, &502, &502, &502, &502, &502, &502, &502, &502]);
        assert_eq!(parts[1].1.matches('?').count(), 11);
        assert_eq!(many.parts(&list[..0]).count(), 0);
    }

    #[test]
    fn whole_tasks_are_read_in_the_order_in_which_they_are_decoded() {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        for text in [
            sql!(query, read_tasks),
            sql!(query, lock_tasks),
            sql!(query, list_versions),
            sql!(query, read_version),
            sql!(query, read_latest_versions),
            sql!(query, list),
            sql!(query, list_rising),
            sql!(query, list_by_term),
            sql!(query, list_by_due),
            sql!(query, list_by_due_rising),
        ] {
            assert!(words(text).contains(&words(TASK_COLUMNS)), "{text}");
        }
    }
}
