//! Records in `meta` of the catalog that the databases have long payloads outside of them, and in a place that is
//! their own. Reads and writes no object.

use super::{
    state::MysqlStore,
    statements::sql,
    timeouts::{READ, WRITE, within},
};
use crate::{Error, ObjectBlobs};

/// Present in `meta`: long payloads are in a place that was named.
const PLACE: &str = "payload_place";
/// The name of the databases in errors.
const AT: &str = "the databases";

impl MysqlStore {
    /// Takes the place for this store, which remembers that it has one, and takes no empty one instead of it later.
    ///
    /// # Errors
    /// When it is another store's, or is empty and the store has been in one; when databases or storage fail.
    pub async fn own_payloads(&self, place: ObjectBlobs) -> Result<ObjectBlobs, Error> {
        let catalog = &self.inner.catalog;
        let read = async {
            let mut conn = catalog.acquire().await?;
            sqlx::query(sql!(shards, read_meta)).bind(PLACE).fetch_optional(&mut *conn).await
        };
        let known = within(READ, read).await?;
        let number = self.number().await?;
        let owned = place.owned_by(number, known.is_some(), AT).await?;
        // An engine that dies before this has only taken the place.
        let keep = async {
            let mut conn = catalog.acquire().await?;
            sqlx::query(sql!(shards, insert_meta)).bind(PLACE).bind(number).execute(&mut *conn).await
        };
        within(WRITE, keep).await?;
        Ok(owned)
    }
}
