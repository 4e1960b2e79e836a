//! Updates of rows that differ in nothing but their places and instants, and of successes with results of their own: one statement
//! names them all by their keys, in one list of row constructors. In batches of 500 a row then costs MariaDB 10.11 7 us of processor
//! time. Joined with a list that is passed as JSON it costs 13, because the server first writes the new values to a temporary table
//! (decision 0050). Must not decide what moves: each row has to be in the state and have the fence that the caller says, or it stays.

use super::{
    parameters::{One, Rows, Value},
    row, statements_moves,
};
use crate::subject::repeated;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use punctual_domain::{place::TaskRef, state::Event, time::Millis};
use sqlx::{Arguments as _, MySqlConnection, mysql::MySqlArguments};
use std::{fmt::Write as _, sync::OnceLock};

/// The numbers of rows of one statement, so that few texts are prepared; a shorter list is filled up with its last
/// row. At least two: MariaDB reads the complete table for a list of one row constructor.
const LENGTHS: [usize; 11] = [2, 3, 5, 8, 16, 32, 64, 128, 256, 512, ROWS_MAX];
const ROWS_MAX: usize = 1_000;
/// Each group of rows that are alike is a statement: with more of them than this, all rows are one statement of another form.
const GROUPS_MAX: usize = 12;
/// Rows of a statement in which each has values of its own: a list of ids and one of values for each column.
const EACH_MAX: usize = 256;
/// Places in a condition of a SELECT: three numbers each, fewer than MariaDB's `in_predicate_conversion_threshold` in all.
const READ_MAX: usize = 300;
/// The hole of the statements that is a list of rows, and the one for what sets the column of the same name.
const ROWS: &str = "{rows: (?, ?, ?)}";
const FIRED_AT: &str = "fired_at";

/// A statement for rows that are alike.
#[derive(Debug)]
pub(crate) struct Alike {
    one: &'static str,
    texts: [Texts; OWN],
    /// The texts for rows with their own values, where the statement has that form.
    of_each: Option<[Texts; OWN]>,
}

/// The texts by their lengths. Each is created once for each statement, and never freed: that bounds them.
type Texts = OnceLock<[&'static str; LENGTHS.len()]>;

const fn no_texts() -> [Texts; OWN] {
    [OnceLock::new(), OnceLock::new(), OnceLock::new()]
}

impl Alike {
    pub(crate) const fn new(one: &'static str) -> Self {
        Self { one, texts: no_texts(), of_each: None }
    }

    /// The statement also has the form in which each row has values of its own: it does not compute with its values.
    pub(crate) const fn or_each(one: &'static str) -> Self {
        Self { one, texts: no_texts(), of_each: Some(no_texts()) }
    }

    /// The text for at least so many rows, and for how many.
    fn text(&self, rows: usize, own: Own) -> Option<(usize, &'static str)> {
        let texts = own.of_three(&self.texts);
        found(texts.get_or_init(|| LENGTHS.map(|length| &*text(self.one, length, own).leak())), rows)
    }

    /// The same for rows with values of their own.
    fn text_of_each(&self, rows: usize, own: Own) -> Option<(usize, &'static str)> {
        let texts = own.of_three(self.of_each.as_ref()?);
        let made = |length| &*each(&text(self.one, length, own), length).leak();
        found(
            texts.get_or_init(|| LENGTHS.map(|length| if length <= EACH_MAX { made(length) } else { "" })),
            rows,
        )
    }
}

fn found(texts: &[&'static str; LENGTHS.len()], rows: usize) -> Option<(usize, &'static str)> {
    LENGTHS.into_iter().zip(texts.iter().copied()).find(|(length, _)| *length >= rows)
}

/// The values that rows have of their own, in addition to their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Own {
    Nothing,
    /// Each row has its own instant, found by the row's id among all in order: on MariaDB 10.11 this costs a third of
    /// a scan of them.
    Listed,
    /// An instant each, equally long after its due time in all.
    Even,
}

/// The number of forms of one text.
const OWN: usize = 3;

impl Own {
    const fn of_three<T>(self, [nothing, listed, even]: &[T; OWN]) -> &T {
        match self {
            Self::Nothing => nothing,
            Self::Listed => listed,
            Self::Even => even,
        }
    }

    /// All rows of a group have an instant, or none has.
    fn of(group: &[&One]) -> Self {
        let late = |row: &One| Some(row.own.get(1)?.wrapping_sub(row.place.due_at.0));
        let mut all = group.iter().map(|row| late(row));
        match all.next().flatten() {
            None => Self::Nothing,
            Some(first) if all.all(|late| late == Some(first)) => Self::Even,
            Some(_) => Self::Listed,
        }
    }
}

/// The text for so many rows.
fn text(one: &str, rows: usize, own: Own) -> String {
    assert!(one.contains(ROWS), "a statement for rows that are alike names them by their keys");
    let named = repeated(one, rows);
    let fired_at = match own {
        // Set to what it is.
        Own::Nothing => FIRED_AT.to_owned(),
        Own::Even => "due_at + ?".to_owned(),
        Own::Listed => {
            let list = vec!["?"; rows].join(", ");
            format!("CAST(ELT(INTERVAL(id, {list}), {list}) AS SIGNED)")
        }
    };
    named.replace("{fired_at}", &fired_at)
}

/// The text with a value for each row where it has one for all, but for the time.
fn each(text: &str, rows: usize) -> String {
    let list = vec!["?"; rows].join(", ");
    let (set, rest) = text.split_once("updated_at = ?").expect("a move says when it was made");
    // What is there of a row's own already is a list, or the one number that all have.
    let (own, shared) = set.split_once("history").expect("a move writes a line of history");
    // MySQL takes parameters of ELT for texts.
    let shared = shared.replace("result_body = ?", "result_body = FROM_BASE64(?)");
    let shared = shared.replace('?', &format!("ELT(INTERVAL(id, {list}), {list})"));
    format!("{own}history{shared}updated_at = ?{rest}")
}

/// Moves the rows, if many of them are alike. Answers how many moved, or `None` if it is not the way for these, and
/// nothing is done.
pub(crate) async fn send(
    conn: &mut MySqlConnection,
    event: Event,
    rows: &Rows,
    now: Millis,
) -> sqlx::Result<Option<u64>> {
    let Some(alike) = statements_moves::alike_of_event(event) else { return Ok(None) };
    let Some(groups) = rows.alike() else { return Ok(None) };
    let (groups, are_alike) = match groups.len() {
        ..=GROUPS_MAX => (groups, true),
        _ => (rows.guarded(), false),
    };
    if groups.len() > GROUPS_MAX || !(are_alike || alike.of_each.is_some()) {
        return Ok(None);
    }
    let mut moved = 0;
    for group in groups {
        for some in group.chunks(if are_alike { ROWS_MAX } else { EACH_MAX }) {
            moved += update(conn, (alike, are_alike), some, now).await?;
        }
    }
    Ok(Some(moved))
}

async fn update(
    conn: &mut MySqlConnection,
    (alike, are_alike): (&Alike, bool),
    group: &[&One],
    now: Millis,
) -> sqlx::Result<u64> {
    let own = Own::of(group);
    let text = if are_alike { alike.text(group.len(), own) } else { alike.text_of_each(group.len(), own) };
    let Some((length, text)) = text else { return Ok(0) };
    let mut values = changes((group, are_alike), length, own, now)?;
    for row in group.iter().chain(group.last().into_iter().cycle()).take(length) {
        super::statements::bind!(
            values,
            row::partition_no(row.place.partition),
            row.place.due_at.0,
            row.place.id
        );
    }
    // What all rows of a group are before the move.
    if let Some((state, fence)) = group.first().map(|row| row.guard) {
        super::statements::bind!(values, state, fence);
    }
    Ok(sqlx::query_with(text, values).execute(conn).await?.rows_affected())
}

/// Places as a condition on `task`. `None` if they are too many for one.
pub(crate) fn condition(places: &[TaskRef]) -> Option<String> {
    if !(1..=READ_MAX).contains(&places.len()) {
        return None;
    }
    let mut text = String::with_capacity(60 + places.len() * 40);
    text.push_str("(task.partition_no, task.due_at, task.id) IN (");
    // At least two, as in `LENGTHS`.
    let twice = places.first().filter(|_| places.len() == 1);
    for (nth, place) in places.iter().chain(twice).enumerate() {
        let comma = if nth == 0 { "" } else { "," };
        let _ = write!(text, "{comma}({},{},{})", place.partition.0, place.due_at.0, place.id);
    }
    text.push(')');
    Some(text)
}

fn fill<'v, T>(values: &mut MySqlArguments, list: &[T], length: usize) -> sqlx::Result<()>
where
    T: Copy + sqlx::Encode<'v, sqlx::MySql> + sqlx::Type<sqlx::MySql> + 'v,
{
    for value in list.iter().chain(list.last().into_iter().cycle()).take(length) {
        values.add(*value).map_err(sqlx::Error::Encode)?;
    }
    Ok(())
}

/// Binds the values of the rows: their own instants, then the values that they share or that each has, then the time.
fn changes(
    (group, are_alike): (&[&One], bool),
    length: usize,
    own: Own,
    now: Millis,
) -> sqlx::Result<MySqlArguments> {
    let mut values = MySqlArguments::default();
    let Some(first) = group.first() else { return Ok(values) };
    let mut by_id = group.to_vec();
    by_id.sort_unstable_by_key(|row| row.place.id);
    let ids: Vec<i64> = by_id.iter().map(|row| row.place.id).collect();
    match own {
        Own::Nothing => {}
        Own::Even => {
            let late = first.own.get(1).map(|at| at.wrapping_sub(first.place.due_at.0));
            super::statements::bind!(values, late);
        }
        Own::Listed => {
            let instants: Vec<i64> = by_id.iter().filter_map(|row| row.own.get(1).copied()).collect();
            fill(&mut values, &ids, length)?;
            fill(&mut values, &instants, length)?;
        }
    }
    for (nth, shared) in first.shared.iter().enumerate() {
        if are_alike {
            add(&mut values, shared)?;
            continue;
        }
        // No row has the ids behind the last, and so none of them repeats a long result.
        for id in ids.iter().copied().chain(std::iter::repeat(i64::MAX)).take(length) {
            values.add(id).map_err(sqlx::Error::Encode)?;
        }
        let of_rows = by_id.iter().filter_map(|row| row.shared.get(nth));
        for value in of_rows.chain(std::iter::repeat(&Value::Null)).take(length) {
            match value {
                Value::Bytes(bytes) => add(&mut values, &Value::Text(BASE64_STANDARD.encode(bytes)))?,
                value => add(&mut values, value)?,
            }
        }
    }
    super::statements::bind!(values, now.0);
    Ok(values)
}

fn add(values: &mut MySqlArguments, value: &Value) -> sqlx::Result<()> {
    match value {
        Value::Null => values.add(None::<i64>),
        Value::Int(number) => values.add(*number),
        Value::Text(text) => values.add(text.as_str()),
        Value::Bytes(bytes) => values.add(bytes.as_slice()),
    }
    .map_err(sqlx::Error::Encode)
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_domain::place::Partition;

    #[test]
    fn a_statement_names_as_many_rows_as_its_text_has_and_what_each_has_of_its_own() {
        let alike =
            Alike::new("SET x = {fired_at}, y = ? WHERE (p, d, id) IN ({rows: (?, ?, ?)}) AND state IN (1)");
        let (rows, text) = alike.text(2, Own::Listed).unwrap();
        let wanted = "SET x = CAST(ELT(INTERVAL(id, ?, ?), ?, ?) AS SIGNED), y = ? WHERE (p, d, id) IN ((?, ?, ?), (?, ?, ?)) AND \
                      state IN (1)";
        assert_eq!((rows, text), (2, wanted));
        assert_eq!(alike.text(4, Own::Listed).map(|text| text.0), Some(5));
        assert!(alike.text(1_001, Own::Listed).is_none());
        let even = "SET x = due_at + ?, y = ? WHERE (p, d, id) IN ((?, ?, ?), (?, ?, ?)) AND state IN (1)";
        assert_eq!(alike.text(1, Own::Even), Some((2, even)));
        let none = "SET x = fired_at, y = ? WHERE (p, d, id) IN ((?, ?, ?), (?, ?, ?)) AND state IN (1)";
        assert_eq!(alike.text(1, Own::Nothing), Some((2, none)));
    }

    #[test]
    fn a_statement_takes_values_of_each_row_by_its_id() {
        let one = "SET fired_at = {fired_at}, history = CONCAT(history, ?), result_body = ?, updated_at = ? \
                   WHERE (p, d, id) IN ({rows: (?, ?, ?)}) AND state = ?";
        assert!(Alike::new(one).text_of_each(2, Own::Even).is_none(), "it computes with its values");
        let alike = Alike::or_each(one);
        let wanted = "SET fired_at = due_at + ?, history = CONCAT(history, ELT(INTERVAL(id, ?, ?), ?, ?)), \
                      result_body = FROM_BASE64(ELT(INTERVAL(id, ?, ?), ?, ?)), updated_at = ? WHERE (p, d, id) IN ((?, ?, ?), (?, ?, ?)) AND state = ?";
        assert_eq!(alike.text_of_each(1, Own::Even), Some((2, wanted)));
        assert_eq!(alike.text_of_each(EACH_MAX, Own::Nothing).map(|text| text.0), Some(EACH_MAX));
    }

    #[test]
    fn a_condition_names_places_up_to_what_one_statement_takes() {
        let places: Vec<TaskRef> =
            (0..301).map(|id| TaskRef { partition: Partition(1), due_at: Millis(7), id }).collect();
        let two = "(task.partition_no, task.due_at, task.id) IN ((1,7,0),(1,7,1))";
        assert_eq!(condition(&places[..2]).as_deref(), Some(two));
        let one = "(task.partition_no, task.due_at, task.id) IN ((1,7,0),(1,7,0))";
        assert_eq!(condition(&places[..1]).as_deref(), Some(one), "a list of one reads the whole table");
        assert!(
            condition(&[]).is_none() && condition(&places).is_none() && condition(&places[1..]).is_some()
        );
    }

    #[test]
    fn rows_that_fired_equally_long_after_their_due_time_need_no_list() {
        let own = |fired: &[(i64, i64)]| {
            let mut rows = Rows::default();
            for (due_at, fired_at) in fired {
                let place = TaskRef { partition: Partition(1), due_at: Millis(*due_at), id: *due_at };
                rows.row(place).int(7).int(*fired_at).mark().int(9);
            }
            Own::of(&rows.alike().unwrap()[0])
        };
        assert_eq!(own(&[(10, 12), (20, 22)]), Own::Even);
        assert_eq!(own(&[(10, 12), (20, 23)]), Own::Listed);
        let mut rows = Rows::default();
        rows.row(TaskRef { partition: Partition(1), due_at: Millis(1), id: 1 }).int(7).mark().int(9);
        assert_eq!(Own::of(&rows.alike().unwrap()[0]), Own::Nothing);
    }
}
