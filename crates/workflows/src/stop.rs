//! Stops the running tasks of a workflow that ends, or of a skipped node: each is cancelled, or its executor is
//! requested to stop, by the engine's own cancel. Every check repeats this, without further effect.

use crate::{
    Error,
    advance::{Command, NodeEnd, StepContext},
    look, make,
    runner::WorkflowsState,
};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use punctual_contract::{
    Error as BackendError,
    workflows::{Carried, WorkflowId},
};
use punctual_domain::{
    place::TaskRef,
    workflow::{End, NodeKey, ParentNode},
};
use punctual_engine::Cancelled;

const AT_ONCE: usize = 16;

/// Returns the nodes that this ended.
pub(crate) async fn stop(step: &StepContext<'_>) -> Result<Vec<NodeEnd>, BackendError> {
    let stopping = step.run.stopping();
    let refs = stopping.iter().filter_map(|key| {
        let attempt = step.run.row(key)?.attempt;
        Some((*key, attempt, step.refs.get(key)?.as_str()))
    });
    let inner = step.inner;
    let parent = step.stored.id;
    let all: Vec<_> = refs
        .map(|(key, attempt, text)| async move { one(inner, parent, key, attempt, text).await })
        .collect();
    let ended: Vec<Option<NodeEnd>> = stream::iter(all).buffer_unordered(AT_ONCE).try_collect().await?;
    Ok(ended.into_iter().flatten().collect())
}

async fn one(
    inner: &WorkflowsState,
    parent: WorkflowId,
    key: NodeKey,
    attempt: u32,
    text: &str,
) -> Result<Option<NodeEnd>, BackendError> {
    if let Ok(id) = text.parse::<WorkflowId>() {
        let reason = format!("the workflow {parent} that it is a part of ends");
        match Box::pin(inner.carry_out(id, Command::Cancel { reason })).await {
            Ok(_) | Err(Error::Refused(_)) => {}
            Err(Error::Engine(error)) => return Err(make::backend(error)),
            Err(other) => return Err(BackendError::did_not_happen("stop a workflow", other)),
        }
        let place = ParentNode { workflow: parent.0, node: key.node, item: key.item, attempt };
        return look::workflow(inner, id, place).await;
    }
    let Ok(place) = text.parse::<TaskRef>() else { return Ok(None) };
    let ended = |(end, carried): (End, Carried)| NodeEnd { key, attempt, end, carried };
    match inner.engine.cancel(place, true, make::BY).await {
        Ok(Cancelled::Cancelled(task) | Cancelled::AlreadyFired(task)) => Ok(look::end_of(&task).map(ended)),
        Ok(Cancelled::StopRequested(_)) => Ok(None),
        Err(punctual_engine::Error::NotFound) => {
            let carried = Carried { error: Some("its task is gone".to_owned()), ..Carried::default() };
            Ok(Some(ended((End::Cancelled, carried))))
        }
        Err(error) => Err(make::backend(error)),
    }
}
