//! Moves of rows that differ in nothing but their places: one range of the key in each partition, at half the cost of
//! rows that are looked up one by one. Only where there are few others between them: an instant at which a hundred
//! thousand are due must not be read for five hundred. Must not decide what moves: the rows are locked already.

use super::{
    place::{Rows, Value},
    row, statements_moves as sql,
};
use punctual_domain::{place::Partition, state::Event, time::Millis};
use sqlx::{Arguments as _, MySqlConnection, mysql::MySqlArguments};
use std::sync::OnceLock;

/// Fewer rows are not worth a look at what is between them.
const ROWS_MIN: usize = 16;
/// Lengths of the lists, so that few texts are prepared; a list is filled up with its last.
const PARTITIONS: [usize; 4] = [1, 4, 16, 64];
const IDS: [usize; 4] = [30, 100, 300, 1_000];

/// A statement with lists of partitions and ids.
#[derive(Debug)]
pub(crate) struct Near {
    one: &'static str,
    texts: OnceLock<Vec<(usize, usize, &'static str)>>,
}

impl Near {
    pub(crate) const fn new(one: &'static str) -> Self {
        Self { one, texts: OnceLock::new() }
    }

    /// The text for lists of at least these lengths, and its lengths.
    fn text(&self, partitions: usize, ids: usize) -> Option<(usize, usize, &'static str)> {
        // Made once for each statement, and never given back: that bounds it.
        let all = PARTITIONS.into_iter().flat_map(|it| IDS.into_iter().map(move |ids| (it, ids)));
        let texts = self.texts.get_or_init(|| {
            all.map(|(partitions, ids)| {
                let text = listed(self.one, "partition_no", partitions);
                (partitions, ids, &*listed(&text, "id", ids).leak())
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

/// Where the rows are, in the order of lists.
struct Window {
    partitions: Vec<i32>,
    ids: Vec<i64>,
    from: Millis,
    to: Millis,
}

impl Window {
    fn of(rows: &Rows) -> Self {
        let mut partitions: Vec<Partition> = rows.places.iter().map(|it| it.partition).collect();
        partitions.sort_unstable();
        partitions.dedup();
        let due = || rows.places.iter().map(|it| it.due_at);
        Self {
            partitions: partitions.into_iter().map(row::partition_no).collect(),
            ids: rows.places.iter().map(|it| it.id).collect(),
            from: due().min().unwrap_or_default(),
            to: due().max().unwrap_or_default(),
        }
    }

    /// No more rows between the first and the last than there are wanted ones again.
    async fn is_sparse(&self, conn: &mut MySqlConnection) -> sqlx::Result<bool> {
        let Some((partitions, _, text)) = sql::NEAR_OTHERS.text(self.partitions.len(), 0) else {
            return Ok(false);
        };
        let most = i64::try_from(self.ids.len() * 2).unwrap_or(i64::MAX);
        let mut values = MySqlArguments::default();
        fill(&mut values, &self.partitions, partitions)?;
        super::statements::bind!(values, self.from.0, self.to.0, most.saturating_add(1));
        let found: i64 = sqlx::query_scalar_with(text, values).fetch_one(conn).await?;
        Ok(found <= most)
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

/// Moves the rows, if they are alike and near each other. Answers how many moved; None: it is not the way for these.
pub(crate) async fn send(
    conn: &mut MySqlConnection,
    event: Event,
    rows: &Rows,
    now: Millis,
) -> sqlx::Result<Option<u64>> {
    let Some(near) = sql::near_of_event(event) else { return Ok(None) };
    let Some(alike) = rows.alike().filter(|_| rows.len >= ROWS_MIN) else { return Ok(None) };
    let window = Window::of(rows);
    let Some((partitions, ids, text)) = near.text(window.partitions.len(), window.ids.len()) else {
        return Ok(None);
    };
    if !window.is_sparse(conn).await? {
        return Ok(None);
    }
    let mut values = MySqlArguments::default();
    for it in alike {
        match it {
            Value::Null => values.add(None::<i64>),
            Value::Int(it) => values.add(*it),
            Value::Text(it) => values.add(it.as_str()),
            Value::Bytes(it) => values.add(it.as_slice()),
        }
        .map_err(sqlx::Error::Encode)?;
    }
    super::statements::bind!(values, now.0);
    fill(&mut values, &window.partitions, partitions)?;
    super::statements::bind!(values, window.from.0, window.to.0);
    fill(&mut values, &window.ids, ids)?;
    Ok(Some(sqlx::query_with(text, values).execute(conn).await?.rows_affected()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_get_the_least_length_that_fits_and_too_long_ones_none() {
        let near = Near::new("WHERE partition_no IN (?) AND id IN (?) AND state IN (1)");
        let (partitions, ids, text) = near.text(2, 31).unwrap();
        assert_eq!((partitions, ids, text.matches('?').count()), (4, 100, 104));
        assert!(text.ends_with(" AND state IN (1)"));
        assert!(near.text(65, 1).is_none() && near.text(1, 1_001).is_none());
    }
}
