//! The state of the limiter of engines without Redis, in table `limiter` of the catalog: one value, and its version,
//! which shows an engine that no other has changed it meanwhile. Must not interpret it.

use super::{
    MysqlOwnership,
    statement::{Statement, apart},
};
use crate::mysql::statements::sql;
use async_trait::async_trait;
use punctual_contract::{Error, Happened, LimiterState, limiter::StoredState};
use punctual_domain::time::Millis;
use sqlx::Row as _;

#[async_trait]
impl LimiterState for MysqlOwnership {
    async fn read(&self, known: i64) -> Result<StoredState, Error> {
        let catalog = self.catalog.clone();
        apart("read what is limited", Happened::No, async move {
            let rows = Statement::new(sql!(ownership, read_limiter)).int(known).fetch(&catalog).await?;
            let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
            let (version, now) = (row.try_get(0)?, Millis(row.try_get(1)?));
            Ok(StoredState { version, now, value: row.try_get(2)? })
        })
        .await
    }

    async fn swap(&self, version: i64, value: Vec<u8>) -> Result<bool, Error> {
        let catalog = self.catalog.clone();
        apart("note what is limited", Happened::Maybe, async move {
            let swap = Statement::new(sql!(ownership, swap_limiter)).bytes(value).int(version);
            Ok(swap.execute(&catalog).await? > 0)
        })
        .await
    }
}
