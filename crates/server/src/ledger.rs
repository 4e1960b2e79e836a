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
use punctual_contract::ledger::FaultKind;
use punctual_protocol::{Alert, At, Int64, Ledger, LedgerFinding, LedgerPartition, LedgerTotals, Severity};

/// The ledger of a database.
///
/// What the last count found: every row against account and register, on one snapshot. An engine counts each database at
/// least once a day, at most every ten minutes, and on request. The embedded store is shard 0.
#[utoipa::path(
    get, path = "/v1/shards/{shard}/ledger", operation_id = "get_ledger", tag = "operation",
    params(("shard" = u64, Path, description = "Number of the database, from 0.")),
    responses((status = 200, description = "Without `checked_at`: the rows were never counted.", body = Ledger)),
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
/// The engine that leads in the database begins within ten seconds. `is_requested` is true until the count ends. It reads
/// every row.
#[utoipa::path(
    post, path = "/v1/shards/{shard}/ledger/check", operation_id = "check_ledger", tag = "operation",
    params(("shard" = u64, Path, description = "Number of the database, from 0.")),
    responses((status = 202, description = "The last count; the next is requested.", body = Ledger)),
)]
pub(crate) async fn check_ledger(
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
    let checked_at = pass.as_ref().map(LedgerPass::ended_ms);
    let took_ms = pass.as_ref().map(|pass| pass.took_ms);
    let pass = pass.unwrap_or_default();
    let sum = |number: fn(&PartitionPass) -> i64| -> i64 { pass.partitions.iter().map(number).sum() };
    Ledger {
        shard: as_u64(database),
        is_requested,
        checked_at: checked_at.map(At::from_ms),
        checked_at_ms: checked_at,
        took_ms,
        totals: LedgerTotals {
            accepted: pass.accepted,
            deleted: pass.deleted,
            waiting: sum(|of| of.waiting),
            in_flight: sum(|of| of.in_flight),
            finished: sum(|of| of.finished),
            unaccounted: pass.unaccounted,
        },
        partitions: pass.partitions.iter().map(|counted| partition(counted, pass.ended_ms())).collect(),
        findings: findings(&pass),
    }
}

fn partition(counted: &PartitionPass, checked_ms: i64) -> LedgerPartition {
    let PartitionPass { partition, accepted, deleted, waiting, in_flight, finished, unaccounted } = *counted;
    LedgerPartition {
        partition,
        accepted,
        waiting,
        in_flight,
        finished,
        deleted,
        unaccounted,
        checked_at: At::from_ms(checked_ms),
        checked_at_ms: checked_ms,
    }
}

fn findings(pass: &LedgerPass) -> Vec<LedgerFinding> {
    pass.faults.iter().map(of_task).chain(pass.differences.iter().map(of_books)).collect()
}

fn of_task(fault: &TaskFault) -> LedgerFinding {
    // Both are rows that no entry of the register leads to.
    let kind = if fault.fault == FaultKind::Unregistered.word() {
        FaultKind::Misplaced.word()
    } else {
        &fault.fault
    };
    LedgerFinding {
        kind: kind.to_owned(),
        task_ref: fault.reference.clone(),
        id: Some(fault.id),
        partition: fault.partition,
        namespace: fault.namespace.clone(),
        task_id: fault.task_id.map(Int64),
        task_version: fault.task_version.map(Int64),
        queue: fault.queue.clone(),
        last_state: fault.state.clone(),
        due_at: fault.due_ms.map(At::from_ms),
        due_at_ms: fault.due_ms,
        account: None,
        rows: None,
        text: fault.described(),
    }
}

fn of_books(difference: &Difference) -> LedgerFinding {
    LedgerFinding {
        kind: "books".to_owned(),
        namespace: Some(difference.namespace.clone()),
        queue: Some(difference.queue.clone()),
        last_state: Some(difference.state.clone()),
        account: Some(difference.account),
        rows: Some(difference.rows),
        text: difference.described(),
        ..LedgerFinding::default()
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
        name: "unaccounted".to_owned(),
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
            "Keep the logs and a backup. GET /v1/shards/{database}/ledger names the rest. Insert lost tasks again from your \
             records. Then run `punctual shard repair`, and POST /v1/shards/{database}/ledger/check."
        ),
    }
}
