//! Bytes that are too long for a row: stored outside the store under a key, which the row has. Knows nothing
//! of tasks: the engine determines which key belongs to which task, and when it is no longer needed.

use crate::error::Error;
use async_trait::async_trait;
use std::fmt;

/// Keys are a folder, a slash and a name: printable ASCII without spaces, backslashes and `{}^%"<>[]~#|?*` and the backtick.
///
/// Promises, for every method:
/// - **Durable.** `Ok` means on the medium, for every engine to see.
/// - **Atomic.** A key has all bytes that were put, or no value, even after a crash.
/// - **Never changed.** A key is put once, and then only read and deleted.
/// - **Said.** An error states whether it may have happened. `list` finds objects that may have been put
///   without an answer.
#[async_trait]
pub trait Blobs: Send + Sync + fmt::Debug + 'static {
    /// The storage is available, and belongs to this store: a missing object is lost, and one that no row refers to
    /// may be deleted. False if it belongs to another store, or is unused, like a directory that is not mounted.
    async fn is_own(&self) -> Result<bool, Error>;

    async fn put(&self, key: &str, bytes: Vec<u8>) -> Result<(), Error>;

    /// Returns `None` if no object has this key.
    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Error>;

    /// Deletes these objects; missing ones count as deleted. After an error some may be left.
    async fn delete(&self, keys: &[String]) -> Result<(), Error>;

    /// Returns the keys after `after` (exclusive; "" is before all), in the order of their text, at most `limit`. A
    /// shorter list is the last one. Objects that are put meanwhile may be missing.
    async fn list(&self, after: &str, limit: usize) -> Result<Vec<String>, Error>;
}
