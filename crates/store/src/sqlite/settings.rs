//! The settings of queues, namespaces and everything, with their history. A change, its line of history and its
//! number are one transaction; every hand-over looks up the pause in its own transaction.

use super::{labels, lanes::Lane, ledger::Ledger, state::SqliteStore, statements::sql};
use crate::rows;
use async_trait::async_trait;
use punctual_contract::{
    Error as CallError, SettingStore,
    settings::{SaveSetting, Saved, SettingChange, Settings},
};
use punctual_domain::{
    settings::{Scope, Setting},
    time::Millis,
};
use rusqlite::{Connection, OptionalExtension as _, params};

const REVISION: &str = "settings_revision";

#[async_trait]
impl SettingStore for SqliteStore {
    async fn settings_revision(&self) -> Result<i64, CallError> {
        self.reading("look at the settings", Lane::Urgent, revision).await
    }

    async fn settings(&self) -> Result<Settings, CallError> {
        self.reading("read the settings", Lane::Urgent, all).await
    }

    async fn save_setting(&self, save_setting: SaveSetting, now: Millis) -> Result<Saved, CallError> {
        self.writing("save a setting", 1, move |conn, _: &mut Ledger| save(conn, &save_setting, now)).await
    }

    async fn setting_changes(
        &self,
        scope: &Scope,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<SettingChange>, CallError> {
        let scope = scope.clone();
        let work = move |conn: &Connection| changes(conn, &scope, before, limit);
        self.reading("read the changes of a setting", Lane::Bulk, work).await
    }
}

fn revision(conn: &Connection) -> rusqlite::Result<i64> {
    conn.prepare_cached(sql!(ledger, read_meta))?.query_row([REVISION], |value| value.get(0))
}

/// Both statements see the same: each reading is a transaction, and in memory nothing runs beside it.
fn all(conn: &Connection) -> rusqlite::Result<Settings> {
    let revision = revision(conn)?;
    let all = conn
        .prepare_cached(sql!(settings, list_all))?
        .query_map([], |row| rows::stored_setting(row))?
        .collect::<Result<_, _>>()?;
    Ok(Settings { revision, all })
}

fn save(conn: &Connection, save_setting: &SaveSetting, now: Millis) -> rusqlite::Result<Saved> {
    let (namespace, queue) = save_setting.scope.names();
    let existing: Option<i64> = conn
        .prepare_cached(sql!(settings, read_revision))?
        .query_row([namespace, queue], |value| value.get(0))
        .optional()?;
    let existing = existing.unwrap_or(0);
    if save_setting.expected.is_some_and(|expected| expected != existing) {
        return Ok(Saved::Conflict(existing));
    }
    if save_setting.setting.is_none() && existing == 0 {
        return Ok(Saved::Done(0));
    }
    let revision: i64 =
        conn.prepare_cached(sql!(settings, take_revision))?.query_row([], |value| value.get(0))?;
    let body = save_setting.setting.as_ref().map(Setting::to_json);
    match &save_setting.setting {
        Some(setting) => conn.prepare_cached(sql!(settings, save))?.execute(params![
            namespace,
            queue,
            revision,
            body,
            setting.is_paused(),
            now.0,
            save_setting.by
        ])?,
        None => conn.prepare_cached(sql!(settings, delete))?.execute([namespace, queue])?,
    };
    labels::declare(conn, (namespace, queue), save_setting.setting.as_ref())?;
    let line = params![revision, namespace, queue, body, now.0, save_setting.by];
    conn.prepare_cached(sql!(settings, record_change))?.execute(line)?;
    Ok(Saved::Done(revision))
}

fn changes(
    conn: &Connection,
    scope: &Scope,
    before: Option<i64>,
    limit: usize,
) -> rusqlite::Result<Vec<SettingChange>> {
    let (namespace, queue) = scope.names();
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let asked = params![namespace, queue, before.unwrap_or(i64::MAX), limit];
    conn.prepare_cached(sql!(settings, list_changes))?
        .query_map(asked, |row| rows::setting_change(row, scope))?
        .collect()
}

/// The queues from which nothing starts, as of the transaction that asks.
#[derive(Debug)]
pub(crate) struct Paused(Vec<(String, String)>);

impl Paused {
    pub(crate) fn read(conn: &Connection) -> rusqlite::Result<Self> {
        let mut paused = conn.prepare_cached(sql!(settings, list_paused))?;
        let paused = paused.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(Self(paused.collect::<Result<_, _>>()?))
    }

    pub(crate) fn has(&self, namespace: &str, queue: &str) -> bool {
        self.0.iter().any(|pair| pair.0 == namespace && pair.1 == queue)
    }
}
