//! The progress of this engine's work on namespaces under deletion. Deletes nothing.

use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::namespaces::TaskPosition;
use punctual_domain::name::Name;
use std::sync::atomic::AtomicUsize;

/// The progress of this engine. It only saves work: without it, a run begins at the start.
#[derive(Debug, Default)]
pub(crate) struct Deletions {
    pub(super) turn: AtomicUsize,
    pub(super) inner: Mutex<DeletionState>,
}

#[derive(Debug, Default)]
pub(super) struct DeletionState {
    pub(super) from: HashMap<(Name, usize), TaskPosition>,
}
