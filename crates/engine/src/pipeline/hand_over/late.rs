//! Leases that a database makes after their caller continued without it. If the caller still waits with no
//! task, it gets them; otherwise they are returned. One of the two always happens, however the caller ends.

use super::release::give_back;
use crate::{core::Core, long_payloads, pipeline::ahead};
use punctual_contract::store::Assignment;
use std::{mem, sync::Arc};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

const REASON: &str = "leased_too_late";

pub(super) type LateLeaseSender = UnboundedSender<Vec<Assignment>>;

/// The caller's end. With a single database the caller waits for it, and nothing is received here.
pub(super) struct LateLeases {
    core: Arc<Core>,
    late_leases: LateLeaseSender,
    late: UnboundedReceiver<Vec<Assignment>>,
}

impl LateLeases {
    pub(super) fn new(core: &Arc<Core>) -> Self {
        let (late_leases, late) = unbounded_channel();
        Self { core: Arc::clone(core), late_leases, late }
    }

    pub(super) fn late_leases(&self) -> LateLeaseSender {
        self.late_leases.clone()
    }

    /// Waits for late leases. May be abandoned at any instant.
    pub(super) async fn next(&mut self) -> Vec<Assignment> {
        // Never closed: this has a sender itself.
        self.late.recv().await.unwrap_or_default()
    }
}

impl Drop for LateLeases {
    fn drop(&mut self) {
        self.late.close();
        let mut unheard = Vec::new();
        while let Ok(mut leased) = self.late.try_recv() {
            unheard.append(&mut leased);
        }
        if !unheard.is_empty() {
            let core = Arc::clone(&self.core);
            self.core.work.detach(async move { give_back(&core, mem::take(&mut unheard), REASON).await });
        }
    }
}

/// These were made after their caller continued. `discontinuities`: of the clock, when they were requested.
pub(super) async fn leased(
    core: &Arc<Core>,
    late_leases: LateLeaseSender,
    leased: Vec<Assignment>,
    discontinuities: u64,
) {
    if leased.is_empty() {
        return;
    }
    if core.discontinuities() != discontinuities {
        // It is unknown how long ago they began.
        return give_back(core, leased, ahead::TOO_LATE).await;
    }
    if late_leases.is_closed() {
        return give_back(core, leased, REASON).await;
    }
    let leased = long_payloads::fetch(core, leased).await;
    if let Err(unheard) = late_leases.send(leased) {
        give_back(core, unheard.0, REASON).await;
    }
}
