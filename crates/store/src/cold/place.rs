//! The number of a place of archives, in an object of its own: databases remember it, so that a directory that is not
//! mounted, or somebody else's, is not taken for theirs. Must never be changed once it stands.

use super::{ColdStorage, Error};
use object_store::path::Path;
use serde::{Deserialize, Serialize};
use std::hash::{BuildHasher as _, RandomState};

const NAME: &str = "punctual-archive-place.json";

#[derive(Serialize, Deserialize)]
struct Place {
    /// Positive.
    punctual_archive_place: i64,
}

impl ColdStorage {
    /// The number of this place. None: it was never used.
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

    /// The number of this place, which gets one if it has none. Of several who ask at once all are told the same.
    ///
    /// # Errors
    /// When the storage cannot be read or written.
    pub async fn make_place(&self) -> Result<i64, Error> {
        if let Some(known) = self.place().await? {
            return Ok(known);
        }
        let random = RandomState::new().hash_one(NAME) >> 1;
        let place = Place { punctual_archive_place: i64::try_from(random).unwrap_or(i64::MAX).max(1) };
        let text = serde_json::to_vec(&place).map_err(|it| Error::BrokenOff(it.to_string()))?;
        let made = self.objects().create(&Path::from(NAME), text).await;
        // Another may have been faster, and then its number counts.
        match (self.place().await?, made) {
            (Some(place), _) => Ok(place),
            (None, Err(error)) => Err(error),
            (None, Ok(())) => Err(Error::damaged(NAME, "it was written and is not there")),
        }
    }
}
