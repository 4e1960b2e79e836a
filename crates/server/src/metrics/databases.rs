//! Numbers by database of the store. There are few: an operator names each.

use super::{
    DATABASE_ANSWERS, DATABASE_BUCKETS, DATABASE_BYTES, DATABASE_PARTITIONS, DATABASE_ROWS, Metric,
    exposition::Exposition,
};
use punctual_cluster::DatabaseView;

type Number = fn(&DatabaseView) -> Option<i64>;

pub(super) fn render(out: &mut Exposition, databases: &[DatabaseView]) {
    let table: [(&Metric, Number); 5] = [
        (&DATABASE_ANSWERS, |it| Some(i64::from(it.database.is_some()))),
        (&DATABASE_ROWS, |it| it.database.as_ref()?.rows),
        (&DATABASE_BYTES, |it| it.database.as_ref()?.bytes),
        (&DATABASE_BUCKETS, |it| it.database.as_ref()?.buckets),
        (&DATABASE_PARTITIONS, |it| i64::try_from(it.partitions).ok()),
    ];
    for (metric, number) in table {
        out.begin(metric);
        for it in databases {
            if let Some(number) = number(it) {
                out.sample(metric, &[&it.number.to_string()], number);
            }
        }
    }
}
