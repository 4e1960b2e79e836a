//! The storage of archives: a directory, or a bucket of an object store. An object is durable when the call that puts
//! it returns, and is never changed afterwards.

use super::Error;
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, future};
use object_store::{
    ObjectStore, ObjectStoreExt as _, PutMode, PutPayload, WriteMultipart, local::LocalFileSystem, path::Path,
};
use std::{ops::Range, os::unix::fs::DirBuilderExt as _, sync::Arc};

/// The size of one part of an upload; object stores require 5 MiB at least.
const CHUNK_BYTES: usize = 8 * 1_048_576;
/// An object store that does not answer is asked again so often, and for no longer: callers wait for it, and repeat by
/// themselves what can be repeated.
#[cfg(feature = "s3")]
const RETRIES: usize = 3;
#[cfg(feature = "s3")]
const RETRY_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);
/// Chunks on their way at the same time.
const CHUNKS_MAX: usize = 2;

#[derive(Clone, Debug)]
pub(crate) struct Objects {
    store: Arc<dyn ObjectStore>,
}

impl Objects {
    pub(crate) const fn over(store: Arc<dyn ObjectStore>) -> Self {
        Self { store }
    }

    pub(super) fn open(url: &str) -> Result<Self, Error> {
        let refused = |problem: String| Error::Address { url: url.to_owned(), problem };
        at(url).map(|store| Self { store }).map_err(refused)
    }

    pub(crate) fn open_with(url: &str, variables: &[(&str, &str)]) -> Result<Self, Error> {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let refused = |problem: String| Error::Address { url: url.to_owned(), problem };
        at_with(url, variables).map(|store| Self { store }).map_err(refused)
    }

    pub(crate) fn into_store(self) -> Arc<dyn ObjectStore> {
        self.store
    }

    /// Objects whose names end so, in the order of their names.
    pub(super) async fn list(&self, ending: &str) -> Result<Vec<Path>, Error> {
        let listed = self.store.list(None).try_filter_map(|object_meta| {
            future::ready(Ok(object_meta.location.as_ref().ends_with(ending).then_some(object_meta.location)))
        });
        let failed = |source| Error::Objects { object: "its list".to_owned(), source };
        let mut found: Vec<Path> = listed.boxed().try_collect().await.map_err(failed)?;
        found.sort_unstable();
        Ok(found)
    }

    /// Returns `None` if there is no such object.
    pub(super) async fn read(&self, object: &Path, range: Range<u64>) -> Result<Option<Bytes>, Error> {
        match self.store.get_range(object, range).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(Error::objects(object)(error)),
        }
    }

    /// Returns `None` if there is no such object.
    pub(super) async fn read_all(&self, object: &Path) -> Result<Option<Bytes>, Error> {
        match self.store.get(object).await {
            Ok(found) => found.bytes().await.map(Some).map_err(Error::objects(object)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(Error::objects(object)(error)),
        }
    }

    pub(super) async fn size(&self, object: &Path) -> Result<u64, Error> {
        self.store.head(object).await.map(|head| head.size).map_err(Error::objects(object))
    }

    pub(super) async fn upload(&self, object: Path) -> Result<Upload, Error> {
        let upload = self.store.put_multipart(&object).await.map_err(Error::objects(&object))?;
        Ok(Upload { parts: WriteMultipart::new_with_chunk_size(upload, CHUNK_BYTES), object })
    }

    /// Writes a small object, reads it back and removes it. One that cannot be removed is left: it says nothing.
    pub(super) async fn probe(&self, object: &Path, bytes: &[u8]) -> Result<(), Error> {
        let put = self.store.put(object, PutPayload::from(bytes.to_vec())).await;
        put.map_err(Error::objects(object))?;
        let read = self.read_all(object).await?;
        if let Err(error) = self.store.delete(object).await {
            tracing::debug!(%error, %object, "a trial object could not be removed");
        }
        match read {
            Some(read) if read == bytes => Ok(()),
            _ => {
                Err(Error::damaged(object.as_ref(), "it was written as a trial, and is not what was written"))
            }
        }
    }

    /// Creates an object atomically. It never replaces another one.
    pub(super) async fn create(&self, object: &Path, bytes: Vec<u8>) -> Result<(), Error> {
        let put = self.store.put_opts(object, PutPayload::from(bytes), PutMode::Create.into()).await;
        put.map(drop).map_err(Error::objects(object))
    }
}

/// Opens the storage that an address names: a directory, which is created, or a bucket. The error describes an
/// address that is neither.
pub(crate) fn at(url: &str) -> Result<Arc<dyn ObjectStore>, String> {
    at_with(
        url,
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
    )
}

/// The same, with these in place of the variables of the environment.
fn at_with(
    url: &str,
    variables: impl Iterator<Item = (String, String)>,
) -> Result<Arc<dyn ObjectStore>, String> {
    match url.split_once("://") {
        Some(("file", path)) => directory(path),
        Some(("s3", place)) => s3(place, variables),
        _ => Err("name a directory, like file:///var/lib/punctual/archive".to_owned()),
    }
}

fn directory(path: &str) -> Result<Arc<dyn ObjectStore>, String> {
    if !path.starts_with('/') {
        return Err("a directory is named from the root, like file:///var/lib/punctual/archive".to_owned());
    }
    // What is made is this user's alone: payloads are in it.
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(path).map_err(|error| error.to_string())?;
    let local = LocalFileSystem::new_with_prefix(path).map_err(|error| error.to_string())?;
    // Databases drop what was put here: it must be on the medium, not only in the system's memory.
    Ok(Arc::new(local.with_fsync(true)))
}

/// Keys and region come from the environment (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`,
/// `AWS_ENDPOINT` for other makes), as everywhere else.
#[cfg(feature = "s3")]
fn s3(
    place: &str,
    variables: impl Iterator<Item = (String, String)>,
) -> Result<Arc<dyn ObjectStore>, String> {
    use object_store::{RetryConfig, aws::AmazonS3Builder, prefix::PrefixStore};
    // Fails where the program has chosen one already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
    let retry = RetryConfig { max_retries: RETRIES, retry_timeout: RETRY_TIMEOUT, ..RetryConfig::default() };
    let mut builder = AmazonS3Builder::new().with_retry(retry);
    for (name, value) in variables.filter(|variable| variable.0.starts_with("AWS_")) {
        // Others of that name are other programs'.
        if let Ok(key) = name.to_ascii_lowercase().parse() {
            builder = builder.with_config(key, value);
        }
    }
    let store = builder.with_bucket_name(bucket).build().map_err(|error| error.to_string())?;
    let prefix = Path::parse(prefix).map_err(|error| error.to_string())?;
    Ok(Arc::new(PrefixStore::new(store, prefix)))
}

#[cfg(not(feature = "s3"))]
fn s3(
    _place: &str,
    _variables: impl Iterator<Item = (String, String)>,
) -> Result<Arc<dyn ObjectStore>, String> {
    Err("this program was built without the feature `s3`".to_owned())
}

/// An object that is being written: it exists when `finish` returned, and not before.
#[derive(Debug)]
pub(super) struct Upload {
    parts: WriteMultipart,
    object: Path,
}

impl Upload {
    /// Waits while too much is on its way.
    pub(super) async fn write(&mut self, bytes: Vec<u8>) -> Result<(), Error> {
        self.parts.wait_for_capacity(CHUNKS_MAX).await.map_err(Error::objects(&self.object))?;
        self.parts.put(bytes.into());
        Ok(())
    }

    pub(super) async fn finish(self) -> Result<(), Error> {
        self.parts.finish().await.map(drop).map_err(Error::objects(&self.object))
    }

    /// Aborts the upload. Parts that cannot be removed remain: nothing refers to them.
    pub(super) async fn abort(self) {
        if let Err(error) = self.parts.abort().await {
            tracing::warn!(%error, object = %self.object, "an archive that was broken off could not be removed");
        }
    }
}
