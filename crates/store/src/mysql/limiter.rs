//! What the limiter of engines without Redis keeps, in table `limiter` of the catalog: one value, and its version, by which an
//! engine knows that no other has changed it meanwhile. Must not know what is in it.

use super::{
    MysqlStore, OWNERSHIP_CONNECTIONS,
    connections::Connections,
    ownership::{Statement, apart},
    statements::sql,
};
use async_trait::async_trait;
use punctual_contract::{
    Error, Happened,
    limiter::{LimiterState, Stands},
};
use punctual_domain::time::Millis;
use sqlx::Row as _;

impl MysqlStore {
    /// What engines on these databases share, where they have no Redis to keep it in.
    #[must_use]
    pub fn limiter_state(&self) -> MysqlLimiterState {
        MysqlLimiterState { catalog: self.inner.catalog.beside(OWNERSHIP_CONNECTIONS) }
    }
}

#[derive(Clone, Debug)]
pub struct MysqlLimiterState {
    catalog: Connections,
}

#[async_trait]
impl LimiterState for MysqlLimiterState {
    async fn read(&self, known: i64) -> Result<Stands, Error> {
        let catalog = self.catalog.clone();
        apart("read what is limited", Happened::No, async move {
            let rows = Statement::new(sql!("limiter/read.sql")).int(known).fetch(&catalog).await?;
            let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
            let (version, now) = (row.try_get(0)?, Millis(row.try_get(1)?));
            Ok(Stands { version, now, value: row.try_get(2)? })
        })
        .await
    }

    async fn swap(&self, version: i64, value: Vec<u8>) -> Result<bool, Error> {
        let catalog = self.catalog.clone();
        apart("note what is limited", Happened::Maybe, async move {
            let swap = Statement::new(sql!("limiter/swap.sql")).bytes(value).int(version);
            Ok(swap.execute(&catalog).await? > 0)
        })
        .await
    }
}
