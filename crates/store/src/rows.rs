//! Decodes the rows of each subject for which both back ends select the same columns. Must not read rows: each back
//! end sends its own statements.

use crate::{columns::Columns, runs, workflows as texts};
use punctual_contract::{
    access::{Previous, Revoked, Token},
    audit::{AuditEntry, AuditResult},
    bulk::{BulkFailure, StoredBulk},
    cluster::{Event, Sample},
    ledger::LedgerReport,
    schedules::{Run, RunKey, ScheduleKey, StoredSchedule},
    settings::{SettingChange, StoredSetting},
    store::Reply,
    workflows::{Carried, NodeContent, StoredDefinition, StoredNode, StoredWorkflow, WorkflowId},
};
use punctual_domain::{
    access::{SecretHash, TokenId},
    bulk::BulkState,
    executor::{DesiredState, Executor},
    settings::{Scope, Setting},
    workflow::{NodeKey, WorkflowState},
};

type Read<T, R> = Result<T, <R as Columns>::Error>;

/// Columns of `list_page` in audit.sql.
pub(crate) fn audit_entry<R: Columns>(row: &R) -> Read<(i64, AuditEntry), R> {
    let status = match row.maybe_int(10)? {
        None => None,
        Some(_) => Some(row.small(10)?),
    };
    let at = row.maybe_millis(11)?;
    let (reason, before, after) = (row.maybe_string(12)?, row.maybe_string(13)?, row.maybe_string(14)?);
    let result = status.zip(at).map(|(status, at)| AuditResult { at, status, reason, before, after });
    let entry = AuditEntry {
        at: row.millis(1)?,
        token_id: row.maybe_string(2)?,
        caller: row.string(3)?,
        address: row.maybe_string(4)?,
        action: row.string(5)?,
        request: row.string(6)?,
        namespace: row.maybe_string(7)?,
        request_id: row.maybe_string(8)?,
        times: row.int(9)?,
        result,
        key: None,
    };
    Ok((row.int(0)?, entry))
}

/// Columns of `list_reports` in ledger.sql.
pub(crate) fn ledger_report<R: Columns>(row: &R) -> Read<LedgerReport, R> {
    Ok(LedgerReport {
        part: row.small(0)?,
        requests: row.int(1)?,
        answered: row.int(2)?,
        body: row.maybe_string(3)?,
    })
}

/// Columns of `list` in executors.sql.
pub(crate) fn executor<R: Columns>(row: &R) -> Read<Executor, R> {
    Ok(Executor {
        namespace: row.name(0)?,
        name: row.name(1)?,
        profile: row.json(2)?,
        desired: desired(row, 3)?,
        first_seen_at: row.millis(4)?,
        seen_at: row.millis(5)?,
        alive_until: row.millis(6)?,
    })
}

pub(crate) fn desired<R: Columns>(row: &R, at: usize) -> Read<DesiredState, R> {
    let code: u8 = row.small(at)?;
    DesiredState::from_code(code).ok_or_else(|| R::odd(at, format!("{code} is not the code of a wish")))
}

/// Columns of `list_all` in access.sql.
pub(crate) fn token<R: Columns>(row: &R) -> Read<Token, R> {
    let previous = match (secret(row, 4)?, row.maybe_millis(5)?) {
        (Some(secret), Some(until)) => Some(Previous { secret, until }),
        _ => None,
    };
    let by = row.maybe_string(11)?;
    Ok(Token {
        id: TokenId::new(row.text(0)?).map_err(|error| R::odd(0, error))?,
        name: row.string(1)?,
        grant: row.json(2)?,
        secret: secret(row, 3)?.ok_or_else(|| R::odd(3, "there is no secret"))?,
        previous,
        created_at: row.millis(6)?,
        created_by: row.string(7)?,
        expires_at: row.maybe_millis(8)?,
        rotated_at: row.maybe_millis(9)?,
        revoked: row.maybe_millis(10)?.map(|at| Revoked { at, by: by.unwrap_or_default() }),
        used_at: row.maybe_millis(12)?,
        revision: row.int(13)?,
        required_at: row.maybe_millis(14)?,
    })
}

fn secret<R: Columns>(row: &R, at: usize) -> Read<Option<SecretHash>, R> {
    let hash =
        |text: &str| SecretHash::from_hex(text).ok_or_else(|| R::odd(at, "is not the hash of a secret"));
    row.maybe_text(at)?.map(hash).transpose()
}

/// Columns of `list_all` in settings.sql.
pub(crate) fn stored_setting<R: Columns>(row: &R) -> Read<StoredSetting, R> {
    let (namespace, queue) = (row.text(0)?, row.text(1)?);
    let odd = || R::odd(0, format!("{namespace:?} and {queue:?} are no scope"));
    let scope = Scope::of_names(namespace, queue).ok_or_else(odd)?;
    Ok(StoredSetting {
        setting: setting::<R>(&scope, 3, row.text(3)?)?,
        scope,
        revision: row.int(2)?,
        updated_at: row.millis(4)?,
        updated_by: row.string(5)?,
    })
}

/// Columns of `list_changes` in settings.sql.
pub(crate) fn setting_change<R: Columns>(row: &R, scope: &Scope) -> Read<SettingChange, R> {
    Ok(SettingChange {
        revision: row.int(0)?,
        setting: row.maybe_text(1)?.map(|body| setting::<R>(scope, 1, body)).transpose()?,
        changed_at: row.millis(2)?,
        changed_by: row.string(3)?,
    })
}

fn setting<R: Columns>(scope: &Scope, at: usize, body: &str) -> Read<Setting, R> {
    Setting::of_json(scope, body).map_err(|error| R::odd(at, error.to_string()))
}

/// Columns of `load` and of `read` in reply.sql.
pub(crate) fn reply<R: Columns>(row: &R) -> Read<Reply, R> {
    Ok(Reply {
        request_hash: row.int(0)?.cast_unsigned(),
        status: row.small(1)?,
        body: row.bytes(2)?,
        keep_until: row.millis(3)?,
    })
}

/// Columns of `list_samples` in cluster.sql, and of the other samples there.
pub(crate) fn sample<R: Columns>(row: &R) -> Read<Sample, R> {
    Ok(Sample { step_at: row.millis(0)?, engine: row.string(1)?, body: row.string(2)? })
}

/// Columns of `list_events` in cluster.sql.
pub(crate) fn event<R: Columns>(row: &R) -> Read<(i64, Event), R> {
    let event = Event {
        at: row.millis(1)?,
        kind: row.text(2)?.parse().map_err(|error| R::odd(2, error))?,
        key: row.string(3)?,
        engine: row.maybe_string(4)?.filter(|engine| !engine.is_empty()),
        text: row.string(5)?,
        details: row.string(6)?,
    };
    Ok((row.int(0)?, event))
}

/// Columns of `read` in bulk.sql, and of the other operations there.
pub(crate) fn bulk<R: Columns>(row: &R) -> Read<StoredBulk, R> {
    let state = BulkState::from_code(row.small(3)?);
    Ok(StoredBulk {
        id: row.int(0)?,
        namespace: row.name(1)?,
        step: row.int(2)?,
        state: state.ok_or_else(|| R::odd(3, "is no state of an operation"))?,
        bulk: row.json(4)?,
        progress: row.json(5)?,
        wake_at: row.maybe_millis(6)?,
        created_at: row.millis(7)?,
        created_by: row.string(8)?,
        updated_at: row.millis(9)?,
    })
}

/// Columns of `list_failures` in bulk.sql.
pub(crate) fn bulk_failure<R: Columns>(row: &R) -> Read<BulkFailure, R> {
    Ok(BulkFailure {
        place: row.text(0)?.parse().map_err(|error| R::odd(0, error))?,
        at: row.millis(1)?,
        error: row.string(2)?,
    })
}

/// Columns of `read` in schedules.sql, and of the other schedules there.
pub(crate) fn schedule<R: Columns>(row: &R) -> Read<StoredSchedule, R> {
    Ok(StoredSchedule {
        id: row.int(0)?,
        key: ScheduleKey { namespace: row.name(1)?, name: row.name(2)? },
        revision: row.int(3)?,
        step: row.int(4)?,
        schedule: row.json(5)?,
        progress: row.json(6)?,
        wake_at: row.maybe_millis(7)?,
        created_at: row.millis(8)?,
        updated_at: row.millis(9)?,
        updated_by: row.string(10)?,
    })
}

/// Columns of `list_runs` in schedules.sql, from one on.
pub(crate) fn run<R: Columns>(row: &R, first: usize) -> Read<Run, R> {
    let column = |nth: usize| first + nth;
    let codes = (row.small(column(2))?, row.small(column(4))?);
    let odd = || R::odd(column(2), format!("{codes:?} is no kind of run with an outcome"));
    let (kind, outcome) = runs::of_codes(codes).ok_or_else(odd)?;
    Ok(Run {
        key: RunKey {
            schedule: row.int(column(0))?,
            at: row.millis(column(1))?,
            kind,
            revision: row.int(column(3))?,
        },
        outcome,
        execute_at: row.millis(column(5))?,
        number: u64::try_from(row.int(column(6))?).unwrap_or(0),
        reason: row.maybe_string(column(7))?,
        task_ref: row.maybe_string(column(8))?,
        is_recorded: row.maybe_int(column(9))?.is_none(),
        created_at: row.millis(column(10))?,
        version: row.maybe_int(column(11))?,
    })
}

/// Columns of `read` in workflows.sql, and of the other workflows there.
pub(crate) fn workflow<R: Columns>(row: &R) -> Read<StoredWorkflow, R> {
    let code: u8 = row.small(6)?;
    let state = WorkflowState::from_code(code);
    Ok(StoredWorkflow {
        id: WorkflowId(row.int(0)?),
        namespace: row.name(1)?,
        name: texts::name(row.text(2)?),
        version: row.int(3)?,
        definition: row.int(4)?,
        step: row.int(5)?,
        state: state.ok_or_else(|| R::odd(6, format!("{code} is no state of a workflow")))?,
        progress: row.json(7)?,
        input: row.string(8)?,
        wake_at: row.maybe_millis(9)?,
        created_at: row.millis(10)?,
        updated_at: row.millis(11)?,
        finished_at: row.maybe_millis(12)?,
        created_by: row.string(13)?,
    })
}

/// Columns of `read_definition` in workflows.sql.
pub(crate) fn definition<R: Columns>(row: &R) -> Read<StoredDefinition, R> {
    Ok(StoredDefinition {
        id: row.int(0)?,
        namespace: row.name(1)?,
        definition: row.json(2)?,
        version: row.int(3)?,
    })
}

fn node_key<R: Columns>(row: &R) -> Read<NodeKey, R> {
    let (node, item) = (row.int(0)?, row.int(1)?);
    let key = texts::key(node, item, row.small(2)?);
    key.ok_or_else(|| R::odd(0, format!("{node} with item {item} is no node")))
}

/// Columns of `list_rows` in workflows.sql.
pub(crate) fn node<R: Columns>(row: &R) -> Read<StoredNode, R> {
    let state: u8 = row.small(3)?;
    let task_ref = row.maybe_string(7)?;
    let stored = texts::row(state, row.int(4)?, row.maybe_int(5)?, row.maybe_int(6)?, task_ref.is_some());
    Ok(StoredNode {
        key: node_key(row)?,
        row: stored.ok_or_else(|| R::odd(3, format!("{state} is no state of a node")))?,
        task_ref,
        begun_at: row.millis(8)?,
        ended_at: row.maybe_millis(9)?,
    })
}

/// Columns of `read_contents` in workflows.sql.
pub(crate) fn node_content<R: Columns>(row: &R) -> Read<NodeContent, R> {
    let carried =
        Carried { result: row.maybe_string(3)?, error: row.maybe_string(4)?, items: row.maybe_string(5)? };
    Ok(NodeContent { key: node_key(row)?, carried })
}
