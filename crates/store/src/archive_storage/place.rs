//! The owner of a storage place: the number of a store, in an object of its own. Databases remember that they have
//! archives, or long payloads, so that a directory that is not mounted, or another store's, is not mistaken for
//! theirs. Must never be changed once it exists.

use super::{ArchiveStorage, Error, objects::Objects};
use object_store::path::Path;
use serde_json::Value;

/// The object that says it, and its one field.
#[derive(Debug)]
pub(crate) struct Marker {
    name: &'static str,
    field: &'static str,
}

const ARCHIVES: Marker = Marker { name: "punctual-archive-place.json", field: "punctual_archive_place" };
pub(crate) const PAYLOADS: Marker =
    Marker { name: "punctual-payload-place.json", field: "punctual_payload_place" };

impl Marker {
    /// The number of the store whose place it is. `None` if it was never used.
    pub(crate) async fn read(&self, objects: &Objects) -> Result<Option<i64>, Error> {
        let Some(bytes) = objects.read_all(&Path::from(self.name)).await? else { return Ok(None) };
        let read: Value =
            serde_json::from_slice(&bytes).map_err(|error| Error::damaged(self.name, error.to_string()))?;
        let number = read.get(self.field).and_then(Value::as_i64);
        number
            .map(Some)
            .ok_or_else(|| Error::damaged(self.name, format!("it has no number {:?}", self.field)))
    }

    /// Answers whose it is now: an existing one wins, so of several that ask at once all get the same answer.
    pub(crate) async fn take(&self, objects: &Objects, store: i64) -> Result<i64, Error> {
        if let Some(known) = self.read(objects).await? {
            return Ok(known);
        }
        let text = format!("{{\"{}\":{store}}}", self.field);
        let made = objects.create(&Path::from(self.name), text.into_bytes()).await;
        // Another may have been faster.
        match (self.read(objects).await?, made) {
            (Some(place), _) => Ok(place),
            (None, Err(error)) => Err(error),
            (None, Ok(())) => Err(Error::damaged(self.name, "it was written and is not there")),
        }
    }
}

impl ArchiveStorage {
    /// The number of the store whose archives are here. `None` if this place was never used.
    ///
    /// # Errors
    /// When the storage cannot be read, or what is stored there is no number.
    pub async fn place(&self) -> Result<Option<i64>, Error> {
        ARCHIVES.read(self.objects()).await
    }

    /// Takes a place that was never used for a store, by its number. Answers whose it is now.
    ///
    /// # Errors
    /// When the storage cannot be read or written.
    pub async fn take_place(&self, store: i64) -> Result<i64, Error> {
        ARCHIVES.take(self.objects(), store).await
    }
}
