//! Finding rows where they are now. A place is tried by its hint first, then by `moved`; rows are named to a
//! statement as one JSON parameter, so that any number of them is one text and an exact look-up each, however many
//! others are due at the same instant. Must not change a task, but where it stands.

use super::{
    ended,
    query::wanted,
    row,
    statements::sql,
    trips::{FirstRead, Trips},
};
use punctual_domain::{place::TaskRef, time::Millis};
use sqlx::{MySqlConnection, Row as _, mysql::MySqlRow};
use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
};

/// Rows of one statement: its parameter stays under a MiB unless results are long.
pub(crate) const ROWS_MAX: usize = 1_000;
/// How often a row is followed that moves while it is looked for. More often than twice is not seen: between two
/// tries another transaction must have moved it and committed.
const TRIES: usize = 4;

/// What a statement found at the places: first its column 0, the number of the place, and column 1, `due_at`.
#[derive(Debug)]
pub(crate) struct PlacedRows {
    /// In the order of the places.
    pub(crate) rows: Vec<Option<Spotted>>,
    /// Some were read without a lock.
    pub(crate) are_unlocked: bool,
}

#[derive(Debug)]
pub(crate) struct Spotted {
    /// Where the row is.
    pub(crate) place: TaskRef,
    pub(crate) row: MySqlRow,
}

/// Runs a statement over places, each of a different task, and again where rows have moved.
pub(crate) async fn find(
    conn: &mut MySqlConnection,
    text: &'static str,
    places: &[TaskRef],
) -> sqlx::Result<PlacedRows> {
    find_ahead(conn, &mut Trips::default(), text, places).await
}

/// The same, where the transaction may have begun with it.
pub(crate) async fn find_ahead(
    conn: &mut MySqlConnection,
    trips: &mut Trips,
    text: &'static str,
    places: &[TaskRef],
) -> sqlx::Result<PlacedRows> {
    let mut found = PlacedRows { rows: places.iter().map(|_| None).collect(), are_unlocked: false };
    // In the order of the key, so that transactions lock in the same order.
    let mut left: Vec<(TaskRef, usize)> = places.iter().copied().zip(0..).collect();
    for _ in 0..TRIES {
        left.sort_unstable();
        for part in left.chunks(ROWS_MAX) {
            look(conn, trips, text, part, &mut found).await?;
        }
        left.retain(|pair| found.is_missing(pair.1));
        if left.is_empty() {
            break;
        }
        left = elsewhere(conn, &left).await?;
    }
    Ok(found)
}

impl PlacedRows {
    fn is_missing(&self, nth: usize) -> bool {
        self.rows.get(nth).is_some_and(Option::is_none)
    }
}

async fn look(
    conn: &mut MySqlConnection,
    trips: &mut Trips,
    text: &'static str,
    part: &[(TaskRef, usize)],
    found: &mut PlacedRows,
) -> sqlx::Result<()> {
    let places: Vec<TaskRef> = part.iter().map(|pair| pair.0).collect();
    let (rows, numbers) = match trips.found(text, &places) {
        Some(FirstRead::Locked(rows)) => (rows, None),
        Some(FirstRead::Unlocked(rows)) => (rows, Some(numbers(&places))),
        None => (sqlx::query(text).bind(wanted(&places)).fetch_all(conn).await?, None),
    };
    found.are_unlocked |= numbers.is_some();
    for row in rows {
        let (first, due_at): (i64, _) = (row.try_get(0)?, row::millis(&row, 1)?);
        let at = match &numbers {
            Some(numbers) => numbers.get(&first).copied(),
            None => usize::try_from(first).ok(),
        };
        let Some((place, nth)) = at.and_then(|number| part.get(number)) else { continue };
        if let Some(slot) = found.rows.get_mut(*nth) {
            *slot = Some(Spotted { place: TaskRef { due_at, ..*place }, row });
        }
    }
    Ok(())
}

/// By the ids, of different tasks.
fn numbers(places: &[TaskRef]) -> HashMap<i64, usize> {
    places.iter().map(|place| place.id).zip(0..).collect()
}

/// The places of those that are said to be elsewhere than where they were looked for.
async fn elsewhere(
    conn: &mut MySqlConnection,
    left: &[(TaskRef, usize)],
) -> sqlx::Result<Vec<(TaskRef, usize)>> {
    let mut places = Vec::new();
    for part in left.chunks(ROWS_MAX) {
        let tried: Vec<TaskRef> = part.iter().map(|pair| pair.0).collect();
        for row in
            sqlx::query(sql!(moves, read_moved_places)).bind(wanted(&tried)).fetch_all(&mut *conn).await?
        {
            let (at, due_at) = (row::small::<usize>(&row, 0)?, row::millis(&row, 1)?);
            let other = part.get(at).filter(|part| part.0.due_at != due_at);
            places.extend(other.map(|(place, nth)| (TaskRef { due_at, ..*place }, *nth)));
        }
    }
    Ok(places)
}

/// Says where tasks are now, in the transaction that moves them there.
pub(crate) async fn keep(conn: &mut MySqlConnection, places: &mut [TaskRef]) -> sqlx::Result<()> {
    places.sort_unstable_by_key(|place| (place.partition, place.id));
    for part in places.chunks(ROWS_MAX) {
        sqlx::query(sql!(moves, save_places)).bind(wanted(part)).execute(&mut *conn).await?;
    }
    Ok(())
}

/// Moves rows to another time and nothing else of them, whatever their state: their references find them there, and so does
/// who looks for ended leases. They are locked, and stand where `places` says.
pub(crate) async fn carry(conn: &mut MySqlConnection, places: &[TaskRef], to: Millis) -> sqlx::Result<()> {
    for part in places.chunks(ROWS_MAX) {
        sqlx::query(sql!(moves, move_in_time)).bind(wanted(part)).bind(to.0).execute(&mut *conn).await?;
    }
    let mut carried: Vec<TaskRef> = places.iter().map(|place| TaskRef { due_at: to, ..*place }).collect();
    ended::watch(conn, &carried).await?;
    keep(conn, &mut carried).await
}

/// Numbers of items in rounds: no task twice in one round, and each task's items in their order.
pub(crate) fn rounds(ids: impl ExactSizeIterator<Item = i64>) -> Vec<Vec<usize>> {
    let mut rounds: Vec<Vec<usize>> = Vec::with_capacity(1);
    let mut seen = hashbrown::HashMap::with_capacity(ids.len());
    for (nth, id) in ids.enumerate() {
        let round: &mut usize = seen.entry(id).and_modify(|number| *number += 1).or_default();
        match rounds.get_mut(*round) {
            Some(round) => round.push(nth),
            None => rounds.push(vec![nth]),
        }
    }
    rounds
}

/// Of a row of which no state is said.
const NO_GUARD: (i64, i64) = (0, 0);

/// Rows of values for one statement: `[[partition, due_at, id, ...], ...]`; of a move, the last value is the state that the row
/// has to be in.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    rows: Vec<One>,
    size: usize,
}

/// One row: its place, values that each row has of its own, and, after the mark, values that many rows may share.
#[derive(Debug)]
pub(crate) struct One {
    pub(crate) place: TaskRef,
    pub(crate) own: Vec<i64>,
    /// The code of its state and its fence, before the move.
    pub(crate) guard: (i64, i64),
    pub(crate) shared: Vec<Value>,
    json: String,
    /// Where the shared values begin in `json`; 0: there is no mark.
    mark: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl One {
    fn shared_json(&self) -> &str {
        self.json.get(self.mark..).unwrap_or_default()
    }
}

impl Rows {
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// A new row, at a place. Further values follow in their order.
    pub(crate) fn row(&mut self, place: TaskRef) -> &mut One {
        self.size += self.rows.last().map_or(0, |row| row.json.len());
        let mut json = String::with_capacity(160);
        let _ = write!(json, "{},{},{}", place.partition.0, place.due_at.0, place.id);
        self.rows.push(One { place, own: Vec::new(), guard: NO_GUARD, shared: Vec::new(), json, mark: 0 });
        self.rows.last_mut().expect("it was just pushed")
    }

    /// How long the parameter is, in bytes, about.
    pub(crate) fn size(&self) -> usize {
        self.size + self.rows.last().map_or(0, |row| row.json.len())
    }

    /// The rows in groups that share their guard and all values after the mark, and have as many of their own. None: they
    /// have no mark.
    pub(crate) fn alike(&self) -> Option<Vec<Vec<&One>>> {
        let mut groups: Vec<Vec<&One>> = Vec::new();
        let mut known: HashMap<(&str, (i64, i64), usize), usize> = HashMap::new();
        let (mut last, mut at) = (("", (0, 0), 0), 0);
        for row in &self.rows {
            if row.mark == 0 {
                return None;
            }
            let shared = (row.shared_json(), row.guard, row.own.len());
            if groups.is_empty() || shared != last {
                at = *known.entry(shared).or_insert(groups.len());
                last = shared;
            }
            match groups.get_mut(at) {
                Some(group) => group.push(row),
                None => groups.push(vec![row]),
            }
        }
        Some(groups)
    }

    /// The same by their guard alone.
    pub(crate) fn guarded(&self) -> Vec<Vec<&One>> {
        let mut groups: BTreeMap<((i64, i64), usize), Vec<&One>> = BTreeMap::new();
        for row in &self.rows {
            groups.entry((row.guard, row.own.len())).or_default().push(row);
        }
        groups.into_values().collect()
    }

    pub(crate) fn json(&self) -> String {
        let mut all = String::with_capacity(self.size() + 3 * self.rows.len() + 2);
        all.push('[');
        for row in &self.rows {
            all.push_str(if all.len() == 1 { "[" } else { ",[" });
            all.push_str(&row.json);
            if row.guard != NO_GUARD {
                let _ = write!(all, ",{}", row.guard.0);
            }
            all.push(']');
        }
        all.push(']');
        all
    }
}

impl One {
    pub(crate) const fn guard(&mut self, state: i64, fence: i64) -> &mut Self {
        self.guard = (state, fence);
        self
    }

    /// What follows in this row may be the same in many.
    pub(crate) const fn mark(&mut self) -> &mut Self {
        self.mark = self.json.len();
        self
    }

    fn remember(&mut self, value: impl FnOnce() -> Value) {
        if self.mark > 0 {
            self.shared.push(value());
        }
    }

    pub(crate) fn int(&mut self, value: i64) -> &mut Self {
        if self.mark == 0 {
            self.own.push(value);
        }
        self.remember(|| Value::Int(value));
        let _ = write!(self.json, ",{value}");
        self
    }

    pub(crate) fn at(&mut self, value: Millis) -> &mut Self {
        self.int(value.0)
    }

    pub(crate) fn maybe_int(&mut self, value: Option<i64>) -> &mut Self {
        match value {
            Some(number) => self.int(number),
            None => self.null(),
        }
    }

    pub(crate) fn text(&mut self, value: &str) -> &mut Self {
        self.remember(|| Value::Text(value.to_owned()));
        self.json.push(',');
        self.json.push_str(&serde_json::to_string(value).expect("a text always has a JSON form"));
        self
    }

    pub(crate) fn maybe_text(&mut self, value: Option<&str>) -> &mut Self {
        match value {
            Some(text) => self.text(text),
            None => self.null(),
        }
    }

    /// In base 64: JSON has no bytes.
    pub(crate) fn maybe_bytes(&mut self, value: Option<&[u8]>) -> &mut Self {
        use base64::{Engine as _, prelude::BASE64_STANDARD};
        let Some(bytes) = value else { return self.null() };
        self.remember(|| Value::Bytes(bytes.to_owned()));
        self.json.push_str(",\"");
        BASE64_STANDARD.encode_string(bytes, &mut self.json);
        self.json.push('"');
        self
    }

    pub(crate) fn null(&mut self) -> &mut Self {
        self.remember(|| Value::Null);
        self.json.push_str(",null");
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_domain::place::Partition;

    #[test]
    fn a_task_stands_in_each_round_at_most_once_and_its_items_keep_their_order() {
        assert_eq!(rounds([7, 8, 7, 9, 7, 8].into_iter()), [vec![0, 1, 3], vec![2, 5], vec![4]]);
        assert_eq!(rounds([].into_iter()), Vec::<Vec<usize>>::new());
    }

    #[test]
    fn rows_are_json_whatever_is_in_them() {
        let place = TaskRef { partition: Partition(3), due_at: Millis(5), id: -1 };
        let mut rows = Rows::default();
        rows.row(place).int(i64::MIN).text("\"\0\n\u{1F980}").maybe_bytes(Some(&[0, 255]));
        rows.row(place).null().maybe_text(None).maybe_bytes(Some(&[]));
        let json: serde_json::Value = serde_json::from_str(&rows.json()).unwrap();
        let wanted =
            serde_json::json!([[3, 5, -1, i64::MIN, "\"\0\n\u{1F980}", "AP8="], [3, 5, -1, null, null, ""]]);
        assert_eq!(json, wanted);
        assert_eq!(Rows::default().json(), "[]");
    }

    #[test]
    fn rows_are_grouped_by_all_that_follows_the_mark() {
        let of = |texts: &[&str]| {
            let mut rows = Rows::default();
            for (text, id) in texts.iter().zip(0..) {
                let place = TaskRef { partition: Partition(1), due_at: Millis(id), id };
                rows.row(place).int(id).mark().text(text).null();
            }
            let ids = |rows: &Vec<&One>| rows.iter().map(|row| row.own[0]).collect::<Vec<_>>();
            rows.alike().unwrap().iter().map(ids).collect::<Vec<_>>()
        };
        assert_eq!(of(&["a", "a", "a"]), [[0, 1, 2]]);
        assert_eq!(of(&["a", "b", "a", "a", "c"]), [vec![0, 2, 3], vec![1], vec![4]]);
        let mut unmarked = Rows::default();
        unmarked.row(TaskRef { partition: Partition(1), due_at: Millis(1), id: 1 }).int(1);
        assert!(unmarked.alike().is_none());
    }
}
