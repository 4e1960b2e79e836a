//! Whether every task is accounted for: by the account as it runs, and by the last count of the rows.

use super::{
    LEDGER_COUNTED_AT, LEDGER_TASKS, TASKS_UNACCOUNTED,
    exposition::{Exposition, seconds},
};
use crate::app::App;
use punctual_cluster::{PartitionPass, Watcher};
use punctual_contract::store::Books;

type Number = fn(&PartitionPass) -> i64;

const STATUSES: [(&str, Number); 6] = [
    ("accepted", |counted| counted.accepted),
    ("waiting", |counted| counted.waiting),
    ("in_flight", |counted| counted.in_flight),
    ("finished", |counted| counted.finished),
    ("deleted", |counted| counted.deleted),
    ("unaccounted", |counted| counted.unaccounted),
];

/// `books`: None: the store does not answer.
pub(super) fn render(out: &mut Exposition, app: &App, books: Option<&Books>) {
    let ledgers = app.options.cluster.as_ref().map(Watcher::ledgers).unwrap_or_default();
    let passes: Vec<_> =
        ledgers.into_iter().filter_map(|view| Some((view.database.to_string(), view.pass?))).collect();
    let counted = app.options.cluster.as_ref().map_or(0, Watcher::unaccounted);
    if let Some(books) = books {
        out.single(&TASKS_UNACCOUNTED, books.unaccounted().abs().max(counted));
    }
    out.begin(&LEDGER_COUNTED_AT);
    for (database, pass) in &passes {
        let ended_us = pass.ended_ms().unsigned_abs().saturating_mul(1_000);
        out.sample(&LEDGER_COUNTED_AT, &[database], seconds(ended_us));
    }
    out.begin(&LEDGER_TASKS);
    for (database, pass) in &passes {
        for counted in &pass.partitions {
            let partition = counted.partition.to_string();
            for (status, number) in STATUSES {
                out.sample(&LEDGER_TASKS, &[database, &partition, status], number(counted));
            }
        }
    }
}
