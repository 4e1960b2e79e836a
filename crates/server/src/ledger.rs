//! Answers about the ledger: what the last count of the rows of a database found. The watcher counts; this module turns its
//! reports into JSON and alerts.

use crate::{
    answer,
    app::{App, Shared},
    cluster::{as_u64, watcher},
    extract::ShardNo,
    refusal::Refusal,
};
use axum::{extract::State, http::StatusCode, response::Response};
use punctual_cluster::{Difference, LedgerPass, LedgerView, PartitionPass, TaskFault, Watcher};
use punctual_protocol::{
    Alert, At, Int64, Ledger, LedgerDifference, LedgerFault, LedgerPartition, LedgerTotals, Severity,
};

/// The ledger of a database.
///
/// What the last count found: of every row against account and register, on one snapshot. A database is counted at least once
/// a day, and at most every ten minutes.
#[utoipa::path(
    get, path = "/v1/shards/{shard}/ledger", operation_id = "get_ledger", tag = "operation",
    params(("shard" = u64, Path, description = "Number of the database, from 0.")),
    responses((status = 200, description = "Without `counted_at`: it was never counted.", body = Ledger)),
)]
pub(crate) async fn get_ledger(
    State(app): State<Shared>,
    ShardNo(shard): ShardNo,
) -> Result<Response, Refusal> {
    let view = ledger(&app, shard).await?;
    Ok(answer::json(StatusCode::OK, &shown(view)))
}

/// Count a database now.
///
/// Some engine does it within ten seconds; `is_requested` is true until the count is over. It reads every row.
#[utoipa::path(
    post, path = "/v1/shards/{shard}/ledger", operation_id = "count_ledger", tag = "operation",
    params(("shard" = u64, Path, description = "Number of the database, from 0.")),
    responses((status = 202, description = "The last count; the next is requested.", body = Ledger)),
)]
pub(crate) async fn count_ledger(
    State(app): State<Shared>,
    ShardNo(shard): ShardNo,
) -> Result<Response, Refusal> {
    let view = ledger(&app, shard).await?;
    watcher(&app)?.request_ledger(view.database).await?;
    // Not read again: that could fail after the request was stored.
    Ok(answer::json(StatusCode::ACCEPTED, &shown(LedgerView { is_requested: true, ..view })))
}

async fn ledger(app: &App, shard: usize) -> Result<LedgerView, Refusal> {
    let none = || Refusal::field("/shard", format!("there is no database {shard}"));
    watcher(app)?.ledger(shard).await?.ok_or_else(none)
}

fn shown(view: LedgerView) -> Ledger {
    let LedgerView { database, pass, is_requested } = view;
    let counted_at = pass.as_ref().map(|pass| pass.began_ms);
    let took_ms = pass.as_ref().map(|pass| pass.took_ms);
    let pass = pass.unwrap_or_default();
    let sum = |number: fn(&PartitionPass) -> i64| -> i64 { pass.partitions.iter().map(number).sum() };
    Ledger {
        shard: as_u64(database),
        is_requested,
        counted_at: counted_at.map(At::from_ms),
        counted_at_ms: counted_at,
        took_ms,
        totals: LedgerTotals {
            accepted: pass.accepted,
            deleted: pass.deleted,
            waiting: sum(|of| of.waiting),
            in_flight: sum(|of| of.in_flight),
            finished: sum(|of| of.finished),
            unaccounted: pass.unaccounted,
        },
        partitions: pass.partitions.into_iter().map(partition).collect(),
        differences: pass.differences.into_iter().map(difference).collect(),
        faults: pass.faults.into_iter().map(fault).collect(),
    }
}

fn partition(pass: PartitionPass) -> LedgerPartition {
    let PartitionPass { partition, registered, waiting, in_flight, finished, unaccounted } = pass;
    LedgerPartition { partition, registered, waiting, in_flight, finished, unaccounted }
}

fn difference(of: Difference) -> LedgerDifference {
    let Difference { namespace, queue, state, account, rows } = of;
    LedgerDifference { namespace, queue, state, account, rows }
}

fn fault(of: TaskFault) -> LedgerFault {
    let text = of.described();
    LedgerFault {
        fault: of.fault,
        id: of.id,
        partition: of.partition,
        namespace: of.namespace,
        task_id: of.task_id.map(Int64),
        task_version: of.task_version.map(Int64),
        queue: of.queue,
        state: of.state,
        due_at: of.due_ms.map(At::from_ms),
        due_at_ms: of.due_ms,
        text,
    }
}

/// As the service has last read the reports.
pub(crate) fn alerts(app: &App) -> Vec<Alert> {
    let found = |view: LedgerView| Some((view.database, view.pass.filter(|pass| pass.unaccounted != 0)?));
    let views = app.options.cluster.as_ref().map(Watcher::ledgers).unwrap_or_default();
    views.into_iter().filter_map(found).map(|(database, pass)| alert(database, &pass)).collect()
}

fn alert(database: usize, pass: &LedgerPass) -> Alert {
    Alert {
        name: "tasks_unaccounted".to_owned(),
        severity: Severity::Critical,
        since: At::from_ms(pass.ended_ms()),
        since_ms: pass.ended_ms(),
        namespace: None,
        queue: None,
        engine: None,
        engines: Vec::new(),
        consequences: Vec::new(),
        text: format!("database {database}: {}", pass.described()),
        what_to_do: format!(
            "Keep the logs and a backup. GET /v1/shards/{database}/ledger names the rest. Restore lost tasks from your \
             records; then `punctual shard repair`, and count again (POST)."
        ),
    }
}
