//! Numbers by database of the store. There are few: an operator names each.

use super::{
    DATABASE_ANSWERS, DATABASE_ARCHIVES, DATABASE_BUCKETS, DATABASE_BUCKETS_WIDE, DATABASE_BYTES,
    DATABASE_PARTITIONS, DATABASE_ROWS, Metric, exposition::Exposition,
};
use punctual_cluster::DatabaseView;

type Number = fn(&DatabaseView) -> Option<i64>;

pub(super) fn render(out: &mut Exposition, databases: &[DatabaseView]) {
    let table: [(&'static Metric, Number); 7] = [
        (&DATABASE_ANSWERS, |view| Some(i64::from(view.database.is_some()))),
        (&DATABASE_ROWS, |view| view.database.as_ref()?.rows),
        (&DATABASE_BYTES, |view| view.database.as_ref()?.bytes),
        (&DATABASE_BUCKETS, |view| view.database.as_ref()?.buckets),
        (&DATABASE_BUCKETS_WIDE, |view| view.database.as_ref()?.buckets_wide),
        (&DATABASE_ARCHIVES, |view| view.database.as_ref()?.archives),
        (&DATABASE_PARTITIONS, |view| i64::try_from(view.partitions).ok()),
    ];
    for (metric, number) in table {
        out.begin(metric);
        for view in databases {
            if let Some(number) = number(view) {
                out.sample(metric, &[&view.number.to_string()], number);
            }
        }
    }
}
