//! Moves of rows that differ in nothing but their places. They are named one by one; many in few partitions that are
//! near each other are one range of the key in each partition, at half the cost a row: only where there are not many
//! others between them, because an instant at which a hundred thousand are due must not be read for five hundred. For
//! each range the server looks into the index before it decides to use it, which costs as much as naming two rows.
//! An update that joins a list would write what it changes to a temporary file first. Must not decide what moves:
//! each row has to be in the state and have the fence that it is said to have, or it stays.

use super::{
    density::Density,
    place::{One, Rows, Value},
    row, statements_moves as sql,
};
use punctual_domain::{
    place::{Partition, TaskRef},
    state::Event,
    time::Millis,
};
use sqlx::{Arguments as _, MySqlConnection, mysql::MySqlArguments};
use std::{collections::BTreeMap, fmt::Write as _, sync::OnceLock};

/// Rows that one statement names: each is compared with half of the others.
const FEW_MAX: usize = 128;
/// Numbers of rows that are named, so that few texts are prepared; they are filled up with the last.
const FEW: [usize; 10] = [1, 2, 3, 5, 8, 16, 32, 64, 96, FEW_MAX];
/// The same for lists.
const PARTITIONS: [usize; 4] = [1, 4, 16, RANGES_MAX];
const RANGES_MAX: usize = 64;
/// With fewer rows than this for each range they are named. On MariaDB 10.11 a range was 110 us of processor and each of
/// its rows 22, a row that is named 45 to 60 (decision 0018).
const ROWS_A_RANGE: usize = 4;
/// So few are named in any case, without a look whether they have others between them.
const NAMED_ANYWAY: usize = 16;
const IDS: [usize; 5] = [30, 100, 300, 550, LONGEST];
const LONGEST: usize = 1_000;
/// Each group of rows that are alike is a statement: with more of them than this, or with hardly any that are alike,
/// all rows are one statement of another form.
const GROUPS_MAX: usize = 12;
/// So many times as many rows as are wanted are passed by: each costs a twentieth of a row that is named.
const OTHERS_MAX: usize = 8;
/// More rows than this of one instant may be part of a crowd.
const TOGETHER_MAX: usize = 8;

/// A statement that names each row.
#[derive(Debug)]
pub(crate) struct Few {
    one: &'static str,
    texts: [OnceLock<[&'static str; FEW.len()]>; OWN],
}

impl Few {
    pub(crate) const fn new(one: &'static str) -> Self {
        Self { one, texts: [OnceLock::new(), OnceLock::new(), OnceLock::new()] }
    }

    /// The text for at least so many rows, and for how many.
    fn text(&self, rows: usize, own: Own) -> Option<(usize, &'static str)> {
        let texts = own.of_three(&self.texts);
        // Made once for each statement, and never given back: that bounds it.
        let texts = texts.get_or_init(|| FEW.map(|it| &*named(self.one, it, own).leak()));
        FEW.into_iter().zip(texts.iter().copied()).find(|it| it.0 >= rows)
    }
}

/// What rows have of their own, besides their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Own {
    Nothing,
    /// An instant each, found by the row's id among all in order: on MariaDB 10.11 a third of what looking through them costs.
    Listed,
    /// An instant each, equally long after its due time in all.
    Even,
}

/// How many forms of one text there are.
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
        let late = |it: &One| Some(it.own.get(1)?.wrapping_sub(it.place.due_at.0));
        let mut all = group.iter().map(|it| late(it));
        match all.next().flatten() {
            None => Self::Nothing,
            Some(first) if all.all(|it| it == Some(first)) => Self::Even,
            Some(_) => Self::Listed,
        }
    }
}

/// The text with its condition on one row, in double brackets, as often as there are rows.
fn named(text: &str, rows: usize, own: Own) -> String {
    with_own(&repeated(text, rows), rows, own)
}

fn repeated(text: &str, times: usize) -> String {
    let (head, rest) = text
        .split_once("((")
        .expect("a statement for rows that are alike has a condition in double brackets");
    let (one, tail) = rest.split_once("))").expect("the brackets are closed");
    let all = vec![format!("({one})"); times].join(" OR ");
    format!("{head}({all}){tail}")
}

const BY_ID: &str = "CAST(ELT(INTERVAL(id, ?), ?) AS SIGNED)";

fn with_own(text: &str, length: usize, own: Own) -> String {
    match own {
        // As it was: the only column that is set so.
        Own::Nothing => text.replace(BY_ID, "fired_at"),
        Own::Even => text.replace(BY_ID, "due_at + ?"),
        Own::Listed => {
            let list = vec!["?"; length].join(", ");
            text.replace(BY_ID, &format!("CAST(ELT(INTERVAL(id, {list}), {list}) AS SIGNED)"))
        }
    }
}

/// A statement with lists of partitions and ids.
#[derive(Debug)]
pub(crate) struct Near {
    one: &'static str,
    texts: [OnceLock<Vec<Text>>; OWN],
}

/// For at most so many partitions and ids.
type Text = (usize, usize, &'static str);

impl Near {
    pub(crate) const fn new(one: &'static str) -> Self {
        Self { one, texts: [OnceLock::new(), OnceLock::new(), OnceLock::new()] }
    }

    /// The text for lists of at least these lengths, and its lengths.
    fn text(&self, partitions: usize, ids: usize, own: Own) -> Option<Text> {
        let texts = own.of_three(&self.texts);
        // Made once for each statement, and never given back: that bounds it.
        let all = PARTITIONS.into_iter().flat_map(|it| IDS.into_iter().map(move |ids| (it, ids)));
        let texts = texts.get_or_init(|| {
            all.map(|(partitions, ids)| {
                let text = listed(&repeated(self.one, partitions), "id", ids);
                (partitions, ids, &*with_own(&text, ids, own).leak())
            })
            .collect()
        });
        texts.iter().copied().find(|it| it.0 >= partitions && it.1 >= ids)
    }
}

fn listed(text: &str, column: &str, length: usize) -> String {
    let list = vec!["?"; length].join(", ");
    text.replacen(&format!(" {column} IN (?)"), &format!(" {column} IN ({list})"), 1)
}

/// Where the rows are, in the order of lists: in each partition from the first to the last of them.
struct Window {
    parts: Vec<(Partition, Millis, Millis)>,
    ids: Vec<i64>,
    /// Most rows that share an instant.
    together: usize,
}

impl Window {
    /// The places stand in the order of the key.
    fn of(places: impl Iterator<Item = TaskRef> + Clone) -> Self {
        let mut parts: BTreeMap<Partition, (Millis, Millis)> = BTreeMap::new();
        let (mut last, mut alike, mut together) = (None, 0, 0);
        for place in places.clone() {
            let instant = Some((place.partition, place.due_at));
            alike = if instant == last { alike + 1 } else { 1 };
            (last, together) = (instant, together.max(alike));
            let (from, to) = parts.entry(place.partition).or_insert((place.due_at, place.due_at));
            (*from, *to) = ((*from).min(place.due_at), (*to).max(place.due_at));
        }
        Self {
            parts: parts.into_iter().map(|(partition, (from, to))| (partition, from, to)).collect(),
            ids: places.map(|it| it.id).collect(),
            together,
        }
    }

    fn span_ms(&self) -> u64 {
        self.parts.iter().map(|(_, from, to)| to.since(*from).unsigned_abs() + 1).sum()
    }

    fn others_max(&self) -> u64 {
        (self.ids.len() * OTHERS_MAX) as u64
    }

    /// Ranges cost less than names, if they have few others.
    const fn is_worth_ranges(&self) -> bool {
        let (ranges, rows) = (self.parts.len(), self.ids.len());
        ranges <= RANGES_MAX && rows > NAMED_ANYWAY && rows >= ranges * ROWS_A_RANGE
    }

    /// It has few others, as far as is known without a look.
    fn is_likely_sparse(&self, density: &Density) -> bool {
        self.together <= TOGETHER_MAX
            && density.rows(self.span_ms()).is_some_and(|it| it * 2 <= self.others_max())
    }

    /// As a condition on `task`.
    fn condition(&self) -> String {
        let mut text = String::with_capacity(self.parts.len() * 90 + self.ids.len() * 12);
        for (nth, (partition, from, to)) in self.parts.iter().enumerate() {
            text.push_str(if nth == 0 { "(" } else { " OR " });
            let (partition, from, to) = (partition.0, from.0, to.0);
            let _ = write!(text, "(task.partition_no = {partition} AND task.due_at BETWEEN {from} AND {to})");
        }
        for (nth, id) in self.ids.iter().enumerate() {
            let _ = write!(text, "{}{id}", if nth == 0 { ") AND task.id IN (" } else { "," });
        }
        text.push(')');
        text
    }

    /// Few enough rows between the first and the last that it is cheaper to pass by them than to name each wanted one.
    async fn is_sparse(&self, conn: &mut MySqlConnection, density: &Density) -> sqlx::Result<bool> {
        if self.is_likely_sparse(density) {
            return Ok(true);
        }
        let Some((partitions, _, text)) = sql::NEAR_OTHERS.text(self.parts.len(), 0, Own::Nothing) else {
            return Ok(false);
        };
        let most = self.others_max();
        let mut values = MySqlArguments::default();
        self.bind(&mut values, partitions)?;
        super::statements::bind!(values, i64::try_from(most + 1).unwrap_or(i64::MAX));
        let found: i64 = sqlx::query_scalar_with(text, values).fetch_one(conn).await?;
        let found = found.unsigned_abs();
        if found > most {
            density.forget();
        } else {
            density.counted(found, self.span_ms());
        }
        Ok(found <= most)
    }

    fn bind(&self, values: &mut MySqlArguments, length: usize) -> sqlx::Result<()> {
        for (partition, from, to) in
            self.parts.iter().chain(self.parts.last().into_iter().cycle()).take(length)
        {
            super::statements::bind!(values, row::partition_no(*partition), from.0, to.0);
        }
        Ok(())
    }
}

fn fill<'v, T>(values: &mut MySqlArguments, list: &[T], length: usize) -> sqlx::Result<()>
where
    T: Copy + sqlx::Encode<'v, sqlx::MySql> + sqlx::Type<sqlx::MySql> + 'v,
{
    for it in list.iter().chain(list.last().into_iter().cycle()).take(length) {
        values.add(*it).map_err(sqlx::Error::Encode)?;
    }
    Ok(())
}

/// Moves the rows, if many of them are alike. Answers how many moved; None: it is not the way for these, and nothing
/// is done.
pub(crate) async fn send(
    conn: &mut MySqlConnection,
    event: Event,
    rows: &Rows,
    density: &Density,
    now: Millis,
) -> sqlx::Result<Option<u64>> {
    let Some((few, near)) = sql::alike_of_event(event) else { return Ok(None) };
    let Some(groups) = rows.alike() else { return Ok(None) };
    if groups.len() > GROUPS_MAX || groups.iter().any(|it| it.len() > LONGEST) {
        return Ok(None);
    }
    let mut moved = 0;
    for group in groups {
        if group.len() <= NAMED_ANYWAY {
            moved += one_by_one(conn, few, &group, now).await?;
            continue;
        }
        let all = window(&group);
        if all.is_worth_ranges() && all.is_sparse(conn, density).await? {
            moved += in_window(conn, near, &group, &all, now).await?;
            continue;
        }
        let (crowds, single) = instants(group);
        for it in crowds {
            moved += in_window(conn, near, &it, &window(&it), now).await?;
        }
        for it in single.chunks(FEW_MAX) {
            moved += one_by_one(conn, few, it, now).await?;
        }
    }
    Ok(Some(moved))
}

fn window(group: &[&One]) -> Window {
    Window::of(group.iter().map(|it| it.place))
}

/// Where places are, as a condition on `task` that costs little; in the order of the key. None: it may cost much.
pub(crate) fn condition(places: &[TaskRef], density: &Density) -> Option<String> {
    let window = Window::of(places.iter().copied());
    if window.is_worth_ranges() && window.is_likely_sparse(density) {
        return Some(window.condition());
    }
    (1..=FEW_MAX).contains(&places.len()).then(|| named_condition(places))
}

fn named_condition(places: &[TaskRef]) -> String {
    let mut text = String::with_capacity(places.len() * 80);
    for it in places {
        let or = if text.is_empty() { "(" } else { " OR " };
        let (partition, due_at, id) = (it.partition.0, it.due_at.0, it.id);
        let _ = write!(
            text,
            "{or}(task.partition_no = {partition} AND task.due_at = {due_at} AND task.id = {id})"
        );
    }
    text.push(')');
    text
}

/// Where a crowd is due at once: what is due at one instant in one partition is found by its ids, however many others
/// are. What shares its instant with few is named: the second.
fn instants(mut group: Vec<&One>) -> (Vec<Vec<&One>>, Vec<&One>) {
    let instant = |it: &One| (it.place.partition, it.place.due_at);
    group.sort_unstable_by_key(|it| it.place);
    let (many, single): (Vec<_>, Vec<_>) =
        group.chunk_by(|a, b| instant(a) == instant(b)).partition(|it| it.len() > NAMED_ANYWAY);
    (many.into_iter().map(<[_]>::to_vec).collect(), single.concat())
}

async fn one_by_one(conn: &mut MySqlConnection, few: &Few, group: &[&One], now: Millis) -> sqlx::Result<u64> {
    let own = Own::of(group);
    let Some((length, text)) = few.text(group.len(), own) else { return Ok(0) };
    let mut values = changes(group, length, own, now)?;
    for it in group.iter().chain(group.last().into_iter().cycle()).take(length) {
        super::statements::bind!(
            values,
            row::partition_no(it.place.partition),
            it.place.due_at.0,
            it.place.id
        );
    }
    guard(&mut values, group)?;
    Ok(sqlx::query_with(text, values).execute(conn).await?.rows_affected())
}

async fn in_window(
    conn: &mut MySqlConnection,
    near: &Near,
    group: &[&One],
    window: &Window,
    now: Millis,
) -> sqlx::Result<u64> {
    let own = Own::of(group);
    let Some((partitions, ids, text)) = near.text(window.parts.len(), window.ids.len(), own) else {
        // Not as many as were asked for have moved, which is told as what it is.
        return Ok(0);
    };
    let mut values = changes(group, ids, own, now)?;
    window.bind(&mut values, partitions)?;
    fill(&mut values, &window.ids, ids)?;
    guard(&mut values, group)?;
    Ok(sqlx::query_with(text, values).execute(conn).await?.rows_affected())
}

/// What all rows of a group are before the move.
fn guard(values: &mut MySqlArguments, group: &[&One]) -> sqlx::Result<()> {
    let Some((state, fence)) = group.first().map(|it| it.guard) else { return Ok(()) };
    super::statements::bind!(values, state, fence);
    Ok(())
}

/// What the rows are set to: what each has of its own besides its fence, then what they share, then the time.
fn changes(group: &[&One], length: usize, own: Own, now: Millis) -> sqlx::Result<MySqlArguments> {
    let mut values = MySqlArguments::default();
    let Some(first) = group.first() else { return Ok(values) };
    match own {
        Own::Nothing => {}
        Own::Even => {
            let late = first.own.get(1).map(|it| it.wrapping_sub(first.place.due_at.0));
            super::statements::bind!(values, late);
        }
        Own::Listed => {
            let instant = |it: &&One| Some((it.place.id, it.own.get(1).copied()?));
            let mut instants: Vec<(i64, i64)> = group.iter().filter_map(instant).collect();
            instants.sort_unstable();
            let (ids, instants): (Vec<i64>, Vec<i64>) = instants.into_iter().unzip();
            fill(&mut values, &ids, length)?;
            fill(&mut values, &instants, length)?;
        }
    }
    for it in &first.shared {
        match it {
            Value::Null => values.add(None::<i64>),
            Value::Int(it) => values.add(*it),
            Value::Text(it) => values.add(it.as_str()),
            Value::Bytes(it) => values.add(it.as_slice()),
        }
        .map_err(sqlx::Error::Encode)?;
    }
    super::statements::bind!(values, now.0);
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_get_the_least_length_that_fits_and_too_long_ones_none() {
        let near = Near::new("WHERE ((p = ? AND d < ?)) AND id IN (?) AND state IN (1)");
        let (partitions, ids, text) = near.text(2, 31, Own::Nothing).unwrap();
        assert_eq!((partitions, ids, text.matches('?').count()), (4, 100, 108));
        let (_, _, text) = near.text(1, 1, Own::Nothing).unwrap();
        assert!(text.starts_with("WHERE ((p = ? AND d < ?)) AND id IN (?, ?"), "{text}");
        assert!(text.ends_with(" AND state IN (1)"));
        assert!(near.text(65, 1, Own::Nothing).is_none() && near.text(1, 1_001, Own::Nothing).is_none());
    }

    #[test]
    fn ranges_are_for_many_rows_in_few_partitions() {
        let is_worth = |rows: i64, partitions: i64| {
            let place = move |id: i64| {
                let partition = Partition(u16::try_from(id % partitions).unwrap());
                TaskRef { partition, due_at: Millis(id), id }
            };
            Window::of((0..rows).map(place)).is_worth_ranges()
        };
        assert_eq!(
            [(16, 1), (17, 1), (17, 4), (17, 5)].map(|it| is_worth(it.0, it.1)),
            [false, true, true, false]
        );
        assert_eq!([(255, 64), (256, 64), (1_000, 65)].map(|it| is_worth(it.0, it.1)), [false, true, false]);
    }

    #[test]
    fn a_crowd_is_parted_by_its_instants() {
        let mut rows = Rows::default();
        let place =
            |partition, due_at, id| TaskRef { partition: Partition(partition), due_at: Millis(due_at), id };
        for id in 0..100 {
            rows.row(place(u16::from(id % 2 == 0), 5, id)).mark();
        }
        for id in 100..103 {
            rows.row(place(1, id, id)).mark();
        }
        let crowd = rows.alike().unwrap().remove(0);
        let (crowds, single) = instants(crowd);
        assert_eq!((crowds.iter().map(Vec::len).collect::<Vec<_>>(), single.len()), (vec![50, 50], 3));
    }

    #[test]
    fn a_few_rows_are_named_one_by_one_with_what_each_has_of_its_own() {
        let few = Few::new(
            "SET x = CAST(ELT(INTERVAL(id, ?), ?) AS SIGNED), y = ? WHERE ((p = ? AND id = ?)) AND state IN (1)",
        );
        let (rows, text) = few.text(2, Own::Listed).unwrap();
        let wanted = "SET x = CAST(ELT(INTERVAL(id, ?, ?), ?, ?) AS SIGNED), y = ? WHERE ((p = ? AND id = ?) OR (p = ? AND id = ?)) AND \
                      state IN (1)";
        assert_eq!((rows, text), (2, wanted));
        assert_eq!(few.text(4, Own::Listed).map(|it| it.0), Some(5));
        assert!(few.text(FEW_MAX + 1, Own::Listed).is_none());
        let even = "SET x = due_at + ?, y = ? WHERE ((p = ? AND id = ?)) AND state IN (1)";
        assert_eq!(few.text(1, Own::Even), Some((1, even)));
        let none = "SET x = fired_at, y = ? WHERE ((p = ? AND id = ?)) AND state IN (1)";
        assert_eq!(few.text(1, Own::Nothing), Some((1, none)));
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
