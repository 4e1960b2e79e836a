//! Records the outcomes of one queue in batches, again until the engine says what became of them.

use super::{held::HeldLeases, shared::Shared};
use crate::source::RecordState;
use punctual_domain::name::QueueKey;
use punctual_protocol::Outcome;
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc::UnboundedReceiver;

const BATCH: usize = 500;
const FIRST_REST: Duration = Duration::from_millis(200);
const LONGEST_REST: Duration = Duration::from_secs(5);

/// Ends when no delivery is left that could send an outcome.
pub(super) async fn run(
    shared: Arc<Shared>,
    queue: Arc<QueueKey>,
    held: Arc<HeldLeases>,
    mut outcomes: UnboundedReceiver<Outcome>,
) {
    let (mut waiting, mut rest) = (Vec::new(), FIRST_REST);
    loop {
        if waiting.is_empty() && outcomes.recv_many(&mut waiting, BATCH).await == 0 {
            return;
        }
        while waiting.len() < BATCH
            && let Ok(outcome) = outcomes.try_recv()
        {
            waiting.push(outcome);
        }
        let recorded = shared.source.record(&queue, waiting.clone()).await;
        let mut unknown = None;
        let mut recorded = recorded.into_iter();
        waiting.retain(|outcome| match recorded.next() {
            Some(RecordState::Done) => {
                held.remove(&outcome.r#ref, &outcome.token);
                false
            }
            Some(RecordState::Unknown(error)) => {
                unknown = Some(error);
                true
            }
            None => true,
        });
        match unknown {
            None => rest = FIRST_REST,
            Some(error) => {
                let outcomes = waiting.len();
                tracing::warn!(%error, outcomes, "outcomes of webhooks are not recorded yet; they are reported again");
                tokio::time::sleep(rest).await;
                rest = (rest * 2).min(LONGEST_REST);
            }
        }
    }
}
