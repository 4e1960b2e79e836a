//! Heartbeats, of attempts of which the store knows and of those of which it does not (`hand_over`). Must not decide anything about
//! a task.

use super::{
    hand_over,
    patience::{in_time, silent as unanswered},
};
use crate::{core::Core, parts};
use punctual_contract::{
    Error,
    journal::AttemptKey,
    store::{Beat, Extended},
};
use std::sync::Arc;

const DOING: &str = "extend leases";

/// Answers in the order of the beats.
pub(crate) async fn extend_each(core: &Arc<Core>, beats: Vec<Beat>) -> Vec<Result<Extended, Error>> {
    let mut answers: Vec<Option<Result<Extended, Error>>> =
        beats.iter().map(|beat| hand_over::extended(core, beat).map(Ok)).collect();
    let asked = without_answer(beats, &answers);
    if !asked.is_empty() {
        fill(&mut answers, ask_store(core, asked).await);
    }
    answers.into_iter().map(|answer| answer.unwrap_or_else(silent)).collect()
}

async fn ask_store(core: &Arc<Core>, beats: Vec<Beat>) -> Vec<Result<Extended, Error>> {
    let extend = |core: Arc<Core>, beats| async move { core.store.extend(beats, core.now()).await };
    // They have begun: their rows are not as they were handed over.
    core.live.lock().forget_attempts(beats.iter().map(|beat| (beat.place.id, beat.fence)));
    parts::ask_each(core, DOING, beats, |beat| beat.place.partition, extend).await
}

fn silent() -> Result<Extended, Error> {
    Err(unanswered())
}

fn without_answer<A>(beats: Vec<Beat>, answers: &[Option<A>]) -> Vec<Beat> {
    beats.into_iter().zip(answers).filter(|(_, answer)| answer.is_none()).map(|(beat, _)| beat).collect()
}

/// Fills the places without an answer, in order.
fn fill<A>(answers: &mut [Option<A>], more: Vec<A>) {
    let open = answers.iter_mut().filter(|answer| answer.is_none());
    open.zip(more).for_each(|(answer, more)| *answer = Some(more));
}

/// Heartbeats that accompany outcomes. The store is not asked about those of unavailable databases, nor about
/// attempts that it does not know. The others answer in time. Errors continue with their outcomes.
pub(super) async fn heartbeat_each(core: &Arc<Core>, beats: Vec<Beat>) -> Vec<Result<Extended, Error>> {
    let state = &core.maintenance.for_later;
    let is_silent = |beat: &Beat| {
        let key = AttemptKey { task: beat.place.id, fence: beat.fence };
        state.is_away(core.store.part_of(beat.place.partition)) || hand_over::is_for_later(core, key)
    };
    let mut answers: Vec<Option<Result<Extended, Error>>> =
        beats.iter().map(|beat| is_silent(beat).then(silent)).collect();
    let asked = without_answer(beats, &answers);
    if !asked.is_empty() {
        let asking = Arc::clone(core);
        let heard = in_time(core, async move { ask_store(&asking, asked).await }).await;
        fill(&mut answers, heard.unwrap_or_default());
    }
    answers.into_iter().map(|answer| answer.unwrap_or_else(silent)).collect()
}
