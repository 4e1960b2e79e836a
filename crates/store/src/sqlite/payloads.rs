//! Records that the file has long payloads outside of it, and in a place that is its own. Reads and writes no object.

use super::{archive::AT, state::SqliteStore};
use crate::{Error, ObjectBlobs};

/// Present in `meta`: long payloads are in a place that was named.
const PLACE: &str = "payload_place";

impl SqliteStore {
    /// Takes the place for this store. `is_named`: by the settings, and not made beside the file; the file remembers that, and
    /// takes no empty one instead of it later.
    ///
    /// # Errors
    /// When it is another store's, or is empty and the file has been in one; when file or storage fail.
    pub async fn own_payloads(&self, place: ObjectBlobs, is_named: bool) -> Result<ObjectBlobs, Error> {
        let is_known = is_named && self.meta(PLACE).await?.is_some();
        let number = self.number().await?;
        let owned = place.owned_by(number, is_known, AT).await?;
        if is_named {
            self.keep(PLACE, number).await?;
        }
        Ok(owned)
    }
}
