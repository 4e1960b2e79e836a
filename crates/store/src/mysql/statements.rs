//! Every statement, by name. The text lives in `sql/mysql`, one file each, with its parameters in the header.
//!
//! Looking up many rows by key is one text for any number of them: the keys come as one JSON parameter, `JSON_TABLE`
//! is joined first (`STRAIGHT_JOIN`), and the plan cannot flip. 6 us a row of the registry, against 11 with a list of
//! ids for each partition, 16 with a chain of ORs, and 380 with lists of partitions and ids. One that locks says of which
//! tables, in a comment that only MySQL reads: asked to lock a `JSON_TABLE` it refuses, and MariaDB does not know the words.

use std::{fmt::Write as _, sync::OnceLock};

/// The text of a file under `sql/mysql`.
macro_rules! sql {
    ($file:literal) => {
        $crate::mysql::statements::without_header(include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/sql/mysql/",
            $file
        )))
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

/// A file without the comment lines that it begins with: the statement cache hashes the text at every use.
pub(crate) const fn without_header(file: &'static str) -> &'static str {
    let mut rest = file;
    while let [b'-', b'-', line @ ..] = rest.as_bytes() {
        let mut after = line;
        while let [byte, more @ ..] = after {
            after = more;
            if *byte == b'\n' {
                break;
            }
        }
        rest = rest.split_at(rest.len() - after.len()).1;
    }
    rest
}

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

/// How many rows one statement takes: few sizes, so that all of them stay prepared on every connection.
const SIZES: [usize; 10] = [500, 250, 100, 50, 25, 10, 5, 3, 2, 1];

/// A statement whose file has one row of `VALUES (...)`, for batches of any length.
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
            let (size, text) = SIZES.iter().zip(texts).find(|it| *it.0 <= rest.len())?;
            let (part, left) = rest.split_at(*size);
            rest = left;
            Some((part, text))
        })
    }
}

/// How long the lists of ids in a statement are; a list is filled up by repeating its last one.
const LENGTHS: [usize; 4] = [1, 10, 100, LONGEST];
const LONGEST: usize = 500;

/// A statement whose file has one `IN (?)`, for a list of any length.
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
        let texts = *self.texts.get_or_init(|| LENGTHS.map(|it| &*listed(self.one, it).leak()));
        list.chunks(LONGEST).filter_map(move |part| {
            let (length, text) = LENGTHS.iter().zip(texts).find(|it| *it.0 >= part.len())?;
            let filled = part.iter().chain(part.last().into_iter().cycle());
            Some((filled.take(*length).collect(), text))
        })
    }
}

fn listed(one: &str, length: usize) -> String {
    one.replacen("IN (?)", &format!("IN ({})", vec!["?"; length].join(", ")), 1)
}

/// The text with its row of values `times` times.
fn repeated(one: &str, times: usize) -> String {
    let (head, rest) = one.split_once("VALUES").expect("a statement for many rows has VALUES");
    let mut depth = 0_i32;
    let is_end = |it: char| {
        depth += i32::from(it == '(') - i32::from(it == ')');
        it == ')' && depth == 0
    };
    let end = rest.find(is_end).expect("the row of values has an end") + 1;
    let (row, tail) = rest.split_at(end);
    format!("{head}VALUES {}{tail}", vec![row.trim(); times].join(", "))
}

pub(crate) const WANTED: &str = sql!("insert/wanted.sql");
pub(crate) static INSERT_REGISTRY: Many = Many::new(sql!("insert/registry.sql"));
pub(crate) static INSERT_TASK: Many = Many::new(sql!("insert/task.sql"));
pub(crate) static INSERT_PLAIN_TASK: Many = Many::new(sql!("insert/task_plain.sql"));
pub(crate) static BETWEEN: Listed = Listed::new(sql!("insert/between.sql"));
pub(crate) const REPLACE: &str = sql!("insert/replace.sql");
pub(crate) const BODY_GONE: &str = sql!("insert/body_gone.sql");
pub(crate) const GONE_LOCK: &str = sql!("insert/gone_lock.sql");
pub(crate) const GONE_BACK: &str = sql!("insert/gone_back.sql");
pub(crate) const GONE_TAKEN: &str = sql!("insert/gone_taken.sql");
pub(crate) const INSERT_BODY: &str = sql!("insert/body.sql");

pub(crate) const READ: &str = sql!("query/read.sql");
pub(crate) const READ_LOCKED: &str = sql!("query/read_locked.sql");
pub(crate) const VERSIONS: &str = sql!("query/versions.sql");
pub(crate) const VERSION: &str = sql!("query/version.sql");
pub(crate) const LATEST_VERSIONS: &str = sql!("query/latest_versions.sql");
pub(crate) const LIST: &str = sql!("query/list.sql");
pub(crate) const LIST_BY_TERM: &str = sql!("query/list_by_term.sql");
pub(crate) const LIST_BY_DUE: &str = sql!("query/list_by_due.sql");
pub(crate) const LIST_BY_DUE_RISING: &str = sql!("query/list_by_due_rising.sql");
pub(crate) const LIST_RISING: &str = sql!("query/list_rising.sql");
pub(crate) const ABOVE: &str = sql!("query/above.sql");
pub(crate) const BELOW: &str = sql!("query/below.sql");

pub(crate) static BOOKS_ADD: Many = Many::new(sql!("ledger/add.sql"));
pub(crate) static COUNT: Many = Many::new(sql!("ledger/count.sql"));
pub(crate) const BODY_BYTES: &str = sql!("ledger/body.sql");
pub(crate) const BOOKS: &str = sql!("ledger/books.sql");
pub(crate) const AUDIT: &str = sql!("ledger/audit.sql");

pub(crate) const REPLY_SAVE: &str = sql!("reply/save.sql");
pub(crate) const REPLY_RESERVE: &str = sql!("reply/reserve.sql");
pub(crate) const REPLY_RESERVE_OVER: &str = sql!("reply/reserve_over.sql");
pub(crate) const REPLY_RESERVED: &str = sql!("reply/reserved.sql");
pub(crate) const REPLY_RELEASE: &str = sql!("reply/release.sql");
pub(crate) const REPLY_LOAD: &str = sql!("reply/load.sql");

pub(crate) const META_READ: &str = sql!("meta/read.sql");
pub(crate) const META_SET: &str = sql!("meta/set.sql");
pub(crate) const META_KEEP: &str = sql!("meta/keep.sql");
pub(crate) const META_TAKE: &str = sql!("meta/take.sql");
pub(crate) const FRESH: &str = sql!("meta/fresh.sql");
pub(crate) const APPLIED: &str = sql!("meta/applied.sql");
pub(crate) const LOCK: &str = sql!("meta/lock.sql");

pub(crate) const PLACEMENT: &str = sql!("shard/placement.sql");
pub(crate) const PLACED: &str = sql!("shard/placed.sql");
pub(crate) static PLACE: Many = Many::new(sql!("shard/place.sql"));
pub(crate) static HOSTED_FIRST: Many = Many::new(sql!("hosted/first.sql"));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::row::TASK_COLUMNS;

    #[test]
    fn numbers_stand_in_the_places_of_parameters() {
        assert_eq!(with_numbers("a = ? AND b < ? LIMIT 1", &[-3, 7]), "a = -3 AND b < 7 LIMIT 1");
    }

    #[test]
    fn a_row_of_values_is_repeated_and_nothing_else() {
        let one = "INSERT INTO t (a, b)\nVALUES\n  (?, f(?))\nON DUPLICATE KEY UPDATE a = VALUES(a)";
        let three = "INSERT INTO t (a, b)\nVALUES (?, f(?)), (?, f(?)), (?, f(?))\nON DUPLICATE KEY UPDATE a = VALUES(a)";
        assert_eq!(repeated(one, 3), three);
    }

    #[test]
    fn every_row_is_in_one_part() {
        let many = Many::new("VALUES (?)");
        for len in [0, 1, 2, 9, 10, 99, 100, 101, 1_234] {
            let rows: Vec<usize> = (0..len).collect();
            let parts: Vec<_> = many.parts(&rows).collect();
            assert_eq!(parts.iter().flat_map(|it| it.0).copied().collect::<Vec<_>>(), rows);
            assert!(parts.iter().all(|(part, text)| text.matches('?').count() == part.len()));
            assert!(parts.len() <= len / 100 + 9, "{len}: {}", parts.len());
        }
    }

    #[test]
    fn a_list_is_filled_up_by_its_last() {
        let many = Listed::new("WHERE a IN (?) AND b = ?");
        let list: Vec<usize> = (0..503).collect();
        let parts: Vec<_> = many.parts(&list).collect();
        assert_eq!(parts.iter().map(|it| it.0.len()).collect::<Vec<_>>(), [500, 10]);
        assert_eq!(parts[1].0, [&500, &501, &502, &502, &502, &502, &502, &502, &502, &502]);
        assert_eq!(parts[1].1.matches('?').count(), 11);
        assert_eq!(many.parts(&list[..0]).count(), 0);
    }

    #[test]
    fn whole_tasks_are_read_in_the_order_in_which_they_are_decoded() {
        let words = |it: &str| it.split_whitespace().collect::<Vec<_>>().join(" ");
        for text in [
            READ,
            READ_LOCKED,
            VERSIONS,
            VERSION,
            LATEST_VERSIONS,
            LIST,
            LIST_RISING,
            LIST_BY_TERM,
            LIST_BY_DUE,
            LIST_BY_DUE_RISING,
        ] {
            assert!(words(text).contains(&words(TASK_COLUMNS)), "{text}");
        }
    }
}
