//! The settings of queues, namespaces and everything, with their history: in the catalog. A change, its line of
//! history and its number are one transaction; a save waits for the one before. A pause is answered when every
//! database enforces it (`pauses`), and so are labels that a queue declares.

use super::{
    background::to_its_end,
    ids::counted_by,
    pauses::{self, PAUSES_REVISION},
    session::Known,
    state::{MySqlState, MysqlStore},
    statements::sql,
    timeouts::{PING, WRITE, silent, watched},
};
use crate::{Error, rows};
use async_trait::async_trait;
use punctual_contract::{
    Error as CallError, SettingStore,
    settings::{SaveSetting, Saved, SettingChange, Settings},
};
use punctual_domain::{
    settings::{Scope, Setting},
    time::Millis,
};
use sqlx::{Connection as _, MySqlConnection, Row as _, mysql::MySqlRow};
use std::{collections::BTreeSet, sync::Arc};
use tokio::time::timeout;

const REVISION: &str = "settings_revision";

#[async_trait]
impl SettingStore for MysqlStore {
    async fn settings_revision(&self) -> Result<i64, CallError> {
        let work =
            |inner: Arc<MySqlState>| async move { revision(&mut *inner.catalog.acquire().await?).await };
        self.reading("look at the settings", work).await
    }

    async fn settings(&self) -> Result<Settings, CallError> {
        self.reading("read the settings", all).await
    }

    async fn save_setting(&self, save_setting: SaveSetting, now: Millis) -> Result<Saved, CallError> {
        const DOING: &str = "save a setting";
        // In a task of its own: a caller that hangs up does not leave a pause half spread.
        let saved = to_its_end(save(Arc::clone(&self.inner), save_setting, now)).await;
        saved.map_err(|error| CallError::may_have_happened(DOING, Error::Panicked(error.to_string())))?
    }

    async fn setting_changes(
        &self,
        scope: &Scope,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<SettingChange>, CallError> {
        let scope = scope.clone();
        let work = move |inner| changes(inner, scope, before, limit);
        self.reading("read the changes of a setting", work).await
    }
}

async fn revision(catalog: &mut MySqlConnection) -> sqlx::Result<i64> {
    sqlx::query(sql!(shards, read_meta)).bind(REVISION).fetch_one(catalog).await?.try_get(0)
}

/// Read again if another caller saved meanwhile: each statement sees what is committed.
async fn all(inner: Arc<MySqlState>) -> sqlx::Result<Settings> {
    let mut conn = inner.catalog.acquire().await?;
    let mut before = revision(&mut conn).await?;
    loop {
        let rows = sqlx::query(sql!(settings, list_all)).fetch_all(&mut *conn).await?;
        let after = revision(&mut conn).await?;
        if before == after {
            let all = rows.iter().map(rows::stored_setting).collect::<sqlx::Result<_>>()?;
            return Ok(Settings { revision: after, all });
        }
        before = after;
    }
}

async fn save(inner: Arc<MySqlState>, save: SaveSetting, now: Millis) -> Result<Saved, CallError> {
    const DOING: &str = "save a setting";
    let failed = |error| CallError::did_not_happen(DOING, error);
    let address = inner.address(0).map_err(failed)?;
    let Known { conn: mut catalog, number } =
        address.writer().await.map_err(|error| failed(address.failed(error)))?;
    let recorded = record(&mut catalog, &save, now);
    let recorded = watched(WRITE, || vec![(number, address.clone())], recorded).await;
    let (saved, spreads) = match recorded.unwrap_or_else(|| Err((silent(), true))) {
        Ok(pair) => pair,
        Err((error, false)) => return Err(failed(address.failed(error))),
        Err((error, true)) => return Err(CallError::may_have_happened(DOING, address.failed(error))),
    };
    drop(timeout(PING, catalog.close()).await);
    if spreads {
        let spread = pauses::spread(&inner.addresses).await;
        spread.map_err(|error| CallError::may_have_happened(DOING, error))?;
    }
    Ok(saved)
}

/// One transaction. True besides: a pause, or labels that are declared, begin, end, or were begun by an engine that may not have
/// brought them everywhere. The error states whether the commit was sent.
async fn record(
    catalog: &mut MySqlConnection,
    save: &SaveSetting,
    now: Millis,
) -> Result<(Saved, bool), (sqlx::Error, bool)> {
    let mut tx = catalog.begin().await.map_err(|error| (error, false))?;
    let (saved, spreads) = change(&mut tx, save, now).await.map_err(|error| (error, false))?;
    match saved {
        Saved::Done(1..) => tx.commit().await.map_err(|error| (error, true))?,
        _ => tx.rollback().await.map_err(|error| (error, false))?,
    }
    Ok((saved, spreads))
}

async fn change(
    tx: &mut MySqlConnection,
    save_setting: &SaveSetting,
    now: Millis,
) -> sqlx::Result<(Saved, bool)> {
    // First: any other that saves waits here.
    let revision = counted_by(tx, REVISION, 1).await?;
    let scope = &save_setting.scope;
    let (namespace, queue) = scope.names();
    let existing = sqlx::query(sql!(settings, read)).bind(namespace).bind(queue);
    let existing = existing.fetch_optional(&mut *tx).await?;
    let existing = existing.map(|row| Ok::<_, sqlx::Error>((row.try_get(0)?, held(scope, &row)?)));
    let (existing, was) = existing.transpose()?.unwrap_or_default();
    if save_setting.expected.is_some_and(|expected| expected != existing) {
        return Ok((Saved::Conflict(existing), false));
    }
    let is_paused = save_setting.setting.as_ref().is_some_and(Setting::is_paused);
    let labels = save_setting.setting.iter().flat_map(Setting::indexed_labels).map(str::to_owned);
    let is = DatabaseSettings { paused: is_paused, labels: labels.collect() };
    let body = save_setting.setting.as_ref().map(Setting::to_json);
    match &body {
        Some(body) => {
            let save = sqlx::query(sql!(settings, save)).bind(namespace).bind(queue).bind(revision);
            let save = save.bind(body).bind(i8::from(is_paused)).bind(now.0).bind(&save_setting.by);
            save.execute(&mut *tx).await?;
        }
        None if existing == 0 => return Ok((Saved::Done(0), false)),
        None => {
            let remove = sqlx::query(sql!(settings, delete)).bind(namespace).bind(queue);
            remove.execute(&mut *tx).await?;
        }
    }
    let line = sqlx::query(sql!(settings, record_change)).bind(revision).bind(namespace).bind(queue);
    line.bind(&body).bind(now.0).bind(&save_setting.by).execute(&mut *tx).await?;
    if was != is {
        let turn = sqlx::query(sql!(shards, set_meta)).bind(revision).bind(PAUSES_REVISION);
        turn.execute(&mut *tx).await?;
    }
    Ok((Saved::Done(revision), was != DatabaseSettings::default() || is != DatabaseSettings::default()))
}

/// The settings that every database enforces by itself.
#[derive(Debug, Default, PartialEq, Eq)]
struct DatabaseSettings {
    paused: bool,
    labels: BTreeSet<String>,
}

/// Columns of `read` in settings.sql.
fn held(scope: &Scope, row: &MySqlRow) -> sqlx::Result<DatabaseSettings> {
    // What a newer program wrote is replaced as before.
    let existing = Setting::of_json(scope, row.try_get(2)?).ok();
    let labels = existing.iter().flat_map(Setting::indexed_labels).map(str::to_owned).collect();
    Ok(DatabaseSettings { paused: row.try_get::<i8, _>(1)? == 1, labels })
}

async fn changes(
    inner: Arc<MySqlState>,
    scope: Scope,
    before: Option<i64>,
    limit: usize,
) -> sqlx::Result<Vec<SettingChange>> {
    let (namespace, queue) = scope.names();
    let asked = sqlx::query(sql!(settings, list_changes)).bind(namespace).bind(queue);
    let asked = asked.bind(before.unwrap_or(i64::MAX)).bind(i64::try_from(limit).unwrap_or(i64::MAX));
    let rows = asked.fetch_all(&mut *inner.catalog.acquire().await?).await?;
    rows.iter().map(|row| rows::setting_change(row, &scope)).collect()
}
