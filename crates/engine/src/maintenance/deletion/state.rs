//! How far this engine has come with the namespaces that are being deleted. Deletes nothing.

use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::namespaces::TaskPosition;
use punctual_domain::name::Name;
use std::sync::atomic::AtomicUsize;

/// How far this engine has come. Only saves work: whoever knows nothing begins at the beginning.
#[derive(Debug, Default)]
pub(crate) struct Deletions {
    pub(super) turn: AtomicUsize,
    pub(super) inner: Mutex<DeletionState>,
}

#[derive(Debug, Default)]
pub(super) struct DeletionState {
    pub(super) from: HashMap<(Name, usize), TaskPosition>,
}
