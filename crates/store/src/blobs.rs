//! Long payloads and results as objects: in a directory, in a bucket, or in memory. A place belongs to one store, and says
//! whose it is. Knows keys and bytes; which task they belong to is not known here.

use crate::{
    Error as StoreError,
    archive_storage::{
        Error as ArchiveError,
        objects::{self, Objects},
        place::PAYLOADS,
    },
};
use async_trait::async_trait;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::{ObjectStore, ObjectStoreExt as _, PutPayload, memory::InMemory, path::Path};
use punctual_contract::{Blobs, Error};
use std::{collections::BinaryHeap, sync::Arc};

const PUT: &str = "keep a long payload or result";
const GET: &str = "read a long payload or result";
const DELETE: &str = "delete long payloads or results";
const LIST: &str = "list long payloads and results";
const LOOK: &str = "look whose the long payloads and results are";

/// See the module.
#[derive(Clone, Debug)]
pub struct ObjectBlobs {
    store: Arc<dyn ObjectStore>,
    /// The number of the store that it was taken for. `None` if no store has taken it, and nothing there is taken for
    /// unused or lost.
    owner: Option<i64>,
}

impl ObjectBlobs {
    /// `file:///directory`, which is made, or `s3://bucket/prefix` in builds with the feature.
    ///
    /// # Errors
    /// When the address names neither, or the directory cannot be made.
    pub fn open(url: &str) -> Result<Self, ArchiveError> {
        let refused = |problem| ArchiveError::Address { url: url.to_owned(), problem };
        objects::at(url).map(|store| Self { store, owner: None }).map_err(refused)
    }

    /// The same; `variables`, such as `AWS_ENDPOINT`, stand in place of the environment's.
    ///
    /// # Errors
    /// Fails like `open`.
    pub fn open_with(url: &str, variables: &[(&str, &str)]) -> Result<Self, ArchiveError> {
        Ok(Self { store: Objects::open_with(url, variables)?.into_store(), owner: None })
    }

    /// A storage in memory that ends when it is dropped: for tests.
    #[must_use]
    pub fn in_memory() -> Self {
        Self { store: Arc::new(InMemory::new()), owner: None }
    }

    /// The place of one store, by its number: marked as such if it was never used. `is_known`: the store has been here.
    pub(crate) async fn owned_by(self, store: i64, is_known: bool, at: &str) -> Result<Self, StoreError> {
        let objects = Objects::over(Arc::clone(&self.store));
        let refused = |found| StoreError::OtherPayloads { at: at.to_owned(), store, found };
        if is_known && PAYLOADS.read(&objects).await?.is_none() {
            return Err(refused(None));
        }
        match PAYLOADS.take(&objects, store).await? {
            owner if owner == store => Ok(Self { owner: Some(owner), ..self }),
            other => Err(refused(Some(other))),
        }
    }

    /// The least keys of one folder that come after a key.
    async fn least(&self, folder: &Path, after: &str, limit: usize) -> Result<Vec<String>, Error> {
        let failed = |error| Error::did_not_happen(LIST, error);
        let mut least: BinaryHeap<String> = BinaryHeap::new();
        let mut listed = self.store.list(Some(folder));
        while let Some(found) = listed.try_next().await.map_err(failed)? {
            let key: String = found.location.into();
            if key.as_str() <= after {
                continue;
            }
            least.push(key);
            if least.len() > limit {
                least.pop();
            }
        }
        Ok(least.into_sorted_vec())
    }
}

#[async_trait]
impl Blobs for ObjectBlobs {
    async fn is_own(&self) -> Result<bool, Error> {
        let found = PAYLOADS.read(&Objects::over(Arc::clone(&self.store))).await;
        let found = found.map_err(|error| Error::did_not_happen(LOOK, error))?;
        Ok(self.owner.is_some() && found == self.owner)
    }

    async fn put(&self, key: &str, bytes: Vec<u8>) -> Result<(), Error> {
        let put = self.store.put(&Path::from(key), PutPayload::from(bytes)).await;
        put.map(drop).map_err(|error| Error::may_have_happened(PUT, error))
    }

    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        let failed = |error| Error::did_not_happen(GET, error);
        match self.store.get(&Path::from(key)).await {
            Ok(found) => Ok(Some(found.bytes().await.map_err(failed)?.into())),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    async fn delete(&self, keys: &[String]) -> Result<(), Error> {
        let paths: Vec<_> = keys.iter().map(|key| Ok(Path::from(key.as_str()))).collect();
        let mut deleted = self.store.delete_stream(stream::iter(paths).boxed());
        let mut failed = None;
        while let Some(result) = deleted.next().await {
            match result {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(()), |error| Err(Error::may_have_happened(DELETE, error)))
    }

    async fn list(&self, after: &str, limit: usize) -> Result<Vec<String>, Error> {
        let listed = self.store.list_with_delimiter(None).await;
        let mut folders = listed.map_err(|error| Error::did_not_happen(LIST, error))?.common_prefixes;
        folders.sort_unstable();
        let folder_of_after = after.split('/').next().unwrap_or_default();
        let mut keys = Vec::new();
        for folder in folders.iter().filter(|folder| folder.as_ref() >= folder_of_after) {
            keys.extend(self.least(folder, after, limit - keys.len()).await?);
            if keys.len() >= limit {
                break;
            }
        }
        Ok(keys)
    }
}
