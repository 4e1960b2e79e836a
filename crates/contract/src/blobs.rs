//! Bytes that are too long for a row: kept outside of the store under a key, which the row has. Knows nothing of tasks:
//! which key belongs to which task, and when it is over, is the engine's.

use crate::error::Error;
use async_trait::async_trait;
use std::fmt;

/// Keys are a folder, a slash and a name: printable ASCII without spaces, backslashes and `{}^%"<>[]~#|?*` and the backtick.
///
/// Promises, for every method:
/// - **Durable.** `Ok` means on the medium, for every engine to see.
/// - **Whole.** Under a key is everything that was put, or nothing, also after a crash.
/// - **Never changed.** A key is put once, and then read and deleted only.
/// - **Said.** An error says whether it may have happened. What may have been put without anybody knowing is found by
///   `list`.
#[async_trait]
pub trait Blobs: Send + Sync + fmt::Debug + 'static {
    /// The place is here, and is that of this store: what is not in it is lost, and what no row has may be deleted. False:
    /// it is another's, or one that nobody has used, like a directory that is not mounted.
    async fn is_own(&self) -> Result<bool, Error>;

    async fn put(&self, key: &str, bytes: Vec<u8>) -> Result<(), Error>;

    /// None: there is nothing under this key.
    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Error>;

    /// Deletes all that there are; those that are not there are none the less gone. After an error some may be left.
    async fn delete(&self, keys: &[String]) -> Result<(), Error>;

    /// The keys after one (exclusive; "" is before all), in the order of their text, at most `limit`. Fewer than that:
    /// these were the last. What is put meanwhile may be missing.
    async fn list(&self, after: &str, limit: usize) -> Result<Vec<String>, Error>;
}
