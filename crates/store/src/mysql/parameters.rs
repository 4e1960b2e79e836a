//! Places and rows of values as one JSON parameter, so that a statement over any number of them is one text. Must not run a
//! statement, and knows no table.

use punctual_domain::{place::TaskRef, time::Millis};
use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
};

/// Rows of one statement: its parameter stays under a MiB unless results are long.
pub(crate) const ROWS_MAX: usize = 1_000;

/// Places as one parameter: `[[number, partition, due_at, id], ...]`.
pub(crate) fn wanted(places: &[TaskRef]) -> String {
    let mut json = String::with_capacity(places.len() * 40 + 2);
    for (nth, place) in places.iter().enumerate() {
        let comma = if nth == 0 { '[' } else { ',' };
        let _ = write!(json, "{comma}[{nth},{},{},{}]", place.partition.0, place.due_at.0, place.id);
    }
    json.push_str(if places.is_empty() { "[]" } else { "]" });
    json
}

/// The guard of a row without a declared state.
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
    /// The position in `json` where the shared values begin; 0 if there is no mark.
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

    /// The approximate length of the parameter, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size + self.rows.last().map_or(0, |row| row.json.len())
    }

    /// The rows in groups that share their guard and all values after the mark, and have as many of their own. `None`
    /// if they have no mark.
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

    /// Marks the position in this row after which the values may be the same in many rows.
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

    /// Writes bytes in base 64: JSON has no bytes.
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
    fn places_are_one_parameter() {
        let place = |id| TaskRef { partition: Partition(3), due_at: Millis(9), id };
        assert_eq!(wanted(&[]), "[]");
        assert_eq!(wanted(&[place(1), place(-2)]), "[[0,3,9,1],[1,3,9,-2]]");
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
