//! Leases that a part of the store makes after the caller they were asked for went on without it: the caller has them if
//! it still waits, with nothing; otherwise they are given back. However the caller goes, each of them is one or the other.

use super::release::give_back;
use crate::{core::Core, outside, pipeline::ahead};
use punctual_contract::store::Assignment;
use std::{future::pending, mem, sync::Arc};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

const REASON: &str = "leased_too_late";

pub(super) type Hears = UnboundedSender<Vec<Assignment>>;

/// The caller's end. A store of one part is waited for, and has none.
pub(super) struct Late {
    core: Arc<Core>,
    channel: Option<(Hears, UnboundedReceiver<Vec<Assignment>>)>,
}

impl Late {
    pub(super) fn new(core: &Arc<Core>) -> Self {
        let channel = (core.store.parts() > 1).then(unbounded_channel);
        Self { core: Arc::clone(core), channel }
    }

    pub(super) fn hears(&self) -> Option<Hears> {
        self.channel.as_ref().map(|it| it.0.clone())
    }

    /// Waits for some. May be given up at any instant.
    pub(super) async fn next(&mut self) -> Vec<Assignment> {
        match &mut self.channel {
            // Never closed: this has a sender itself.
            Some((_, late)) => late.recv().await.unwrap_or_default(),
            None => pending().await,
        }
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        let Some((_, late)) = &mut self.channel else { return };
        late.close();
        let mut unheard = Vec::new();
        while let Ok(mut leased) = late.try_recv() {
            unheard.append(&mut leased);
        }
        if !unheard.is_empty() {
            let core = Arc::clone(&self.core);
            self.core.work.detach(async move { give_back(&core, mem::take(&mut unheard), REASON).await });
        }
    }
}

/// These were made while their caller went on. `breaks`: of time, when they were asked for.
pub(super) async fn leased(core: &Arc<Core>, hears: Option<Hears>, leased: Vec<Assignment>, breaks: u64) {
    if leased.is_empty() {
        return;
    }
    if core.breaks() != breaks {
        // Nobody knows how long ago they began.
        return give_back(core, leased, ahead::TOO_LATE).await;
    }
    let Some(hears) = hears.filter(|it| !it.is_closed()) else {
        return give_back(core, leased, REASON).await;
    };
    let leased = outside::fetch(core, leased).await;
    if let Err(unheard) = hears.send(leased) {
        give_back(core, unheard.0, REASON).await;
    }
}
