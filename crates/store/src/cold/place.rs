//! Whose archives a place has: the number of their store, in an object of its own. Databases remember that they have
//! archives, so that a directory that is not mounted, or another store's, is not taken for theirs. Must never be changed
//! once it stands.

use super::{ColdStorage, Error};
use object_store::path::Path;
use serde::{Deserialize, Serialize};

const NAME: &str = "punctual-archive-place.json";

#[derive(Serialize, Deserialize)]
struct Place {
    /// The number of the store.
    punctual_archive_place: i64,
}

impl ColdStorage {
    /// The number of the store whose archives are here. None: this place was never used.
    ///
    /// # Errors
    /// When the storage cannot be read, or what stands there is no number.
    pub async fn place(&self) -> Result<Option<i64>, Error> {
        let name = Path::from(NAME);
        let Some(bytes) = self.objects().read_all(&name).await? else { return Ok(None) };
        let read: Result<Place, _> = serde_json::from_slice(&bytes);
        let place = read.map_err(|it| Error::damaged(NAME, it.to_string()))?;
        Ok(Some(place.punctual_archive_place))
    }

    /// Takes a place that was never used for a store, by its number. Answers whose it is now: what stands wins, so of
    /// several who ask at once all are told the same.
    ///
    /// # Errors
    /// When the storage cannot be read or written.
    pub async fn take_place(&self, store: i64) -> Result<i64, Error> {
        if let Some(known) = self.place().await? {
            return Ok(known);
        }
        let place = Place { punctual_archive_place: store };
        let text = serde_json::to_vec(&place).map_err(|it| Error::BrokenOff(it.to_string()))?;
        let made = self.objects().create(&Path::from(NAME), text).await;
        // Another may have been faster.
        match (self.place().await?, made) {
            (Some(place), _) => Ok(place),
            (None, Err(error)) => Err(error),
            (None, Ok(())) => Err(Error::damaged(NAME, "it was written and is not there")),
        }
    }
}
