//! The registry of executors, on a table of the catalog. It lists the known executors; it does not determine which
//! executor has which task.

use super::{
    connections::Connections,
    ownership::statement::{Statement, apart},
    row,
    statements::sql,
};
use crate::rows;
use punctual_contract::{Error, Happened};
use punctual_domain::{
    executor::{DesiredState, Executor, ExecutorStatus, Roll, Sign},
    name::Name,
    time::Millis,
};
use sqlx::Row as _;

/// Signs of one statement.
const SIGNS_MAX: usize = 500;

pub(super) async fn note(
    catalog: Connections,
    signs: Vec<Sign>,
) -> Result<Vec<(Name, Name, DesiredState)>, Error> {
    apart("note executors", Happened::Maybe, async move {
        for some in signs.chunks(SIGNS_MAX) {
            Statement::new(sql!(executors, save_heartbeats)).text(&json(some)).execute(&catalog).await?;
        }
        let wished = Statement::new(sql!(executors, list_desired_states)).fetch(&catalog).await?;
        wished
            .iter()
            .map(|value| Ok((row::name(value, 0)?, row::name(value, 1)?, rows::desired(value, 2)?)))
            .collect()
    })
    .await
}

fn json(signs: &[Sign]) -> String {
    let one = |sign: &Sign| {
        let body = serde_json::to_string(&sign.profile).expect("numbers and strings always have a JSON form");
        let gone = if sign.leaving { 2 } else { 0 };
        (sign.namespace.clone(), sign.name.clone(), body, sign.at.0, sign.alive_until.0, gone)
    };
    let rows: Vec<_> = signs.iter().map(one).collect();
    serde_json::to_string(&rows).expect("numbers and strings always have a JSON form")
}

/// Deletes data of a namespace that is being deleted: its executors, and the history of its queues' settings.
pub(super) async fn forget_namespace(
    catalog: Connections,
    namespace: Name,
    limit: usize,
) -> Result<usize, Error> {
    apart("delete traces of a namespace", Happened::Maybe, async move {
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut deleted = 0;
        for file in [
            sql!(namespaces, delete_executors),
            sql!(namespaces, delete_setting_changes),
            sql!(namespaces, delete_schedules),
            sql!(namespaces, delete_bulk_failures),
            sql!(namespaces, delete_bulks),
            sql!(namespaces, delete_evaluations),
        ] {
            let delete = Statement::new(file).text(namespace.as_str()).int(most);
            deleted += delete.execute(&catalog).await?;
        }
        Ok(usize::try_from(deleted).unwrap_or(usize::MAX))
    })
    .await
}

/// Namespaces that have schedules.
pub(super) async fn scheduling(catalog: Connections) -> Result<Vec<Name>, Error> {
    apart("list namespaces with schedules", Happened::No, async move {
        let file = sql!(namespaces, list_with_schedules);
        Statement::new(file).fetch(&catalog).await?.iter().map(|row| row::name(row, 0)).collect()
    })
    .await
}

pub(super) async fn list(
    catalog: Connections,
    namespace: Name,
    from: String,
    limit: usize,
) -> Result<Vec<Executor>, Error> {
    apart("list executors", Happened::No, async move {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let asked = Statement::new(sql!(executors, list)).text(namespace.as_str()).text(&from).int(limit);
        asked.fetch(&catalog).await?.iter().map(rows::executor).collect()
    })
    .await
}

/// Answers what was wished before.
pub(super) async fn set_desired_state(
    catalog: Connections,
    namespace: Name,
    name: Name,
    desired: DesiredState,
) -> Result<Option<DesiredState>, Error> {
    apart("say what is wished of an executor", Happened::Maybe, async move {
        loop {
            let wished = Statement::new(sql!(executors, read_desired_state))
                .text(namespace.as_str())
                .text(name.as_str());
            let Some(found) = wished.fetch(&catalog).await?.pop() else { return Ok(None) };
            let stood = rows::desired(&found, 0)?;
            let set = Statement::new(sql!(executors, set_desired_state)).int(i64::from(desired.code()));
            let set = set.text(namespace.as_str()).text(name.as_str()).int(i64::from(stood.code()));
            // Lost: another desired state was set.
            if set.execute(&catalog).await? > 0 {
                return Ok(Some(stood));
            }
        }
    })
    .await
}

pub(super) async fn sweep_silent(
    catalog: Connections,
    now: Millis,
    silent_since: Millis,
    left_before: Millis,
) -> Result<Roll, Error> {
    apart("call the roll of executors", Happened::Maybe, async move {
        let died = Statement::new(sql!(executors, mark_silent)).int(now.0).execute(&catalog).await?;
        let forget = Statement::new(sql!(executors, delete_silent)).int(silent_since.0).int(left_before.0);
        forget.execute(&catalog).await?;
        let mut roll = Roll { died, ..Roll::default() };
        for value in Statement::new(sql!(executors, count_by_state)).int(now.0).fetch(&catalog).await? {
            let silent: i64 = value.try_get(1)?;
            let status = if silent != 0 {
                ExecutorStatus::Dead
            } else {
                ExecutorStatus::of(rows::desired(&value, 0)?)
            };
            roll.count(status, row::small(&value, 2)?);
        }
        Ok(roll)
    })
    .await
}
