//! One step of a workflow: takes in ends and commands, decides what follows, and commits all of it at once,
//! compared with the step that it was decided on. Then decided tasks are made; if that fails, the node ends.

use crate::{
    Error, Plan,
    error::Contended,
    look, make,
    marked::Marked,
    runner::WorkflowsState,
    stop,
    values::{RowValues, most_bytes},
};
use punctual_contract::{
    Error as BackendError, Happened,
    store::Applied,
    workflows::{AdvanceWorkflow, Carried, ChangedNode, StoredNode, StoredWorkflow, WorkflowId},
};
use punctual_domain::{
    identity::IdentitySecret,
    time::Millis,
    workflow::{End, Ending, NodeKey, NodeState, Progress, Refused, Run, WorkflowState},
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// Steps that lose their race to others, one after the other.
const TRIES: usize = 64;
/// Steps of one call, each of which follows from the results of the preceding one.
const ROUNDS_MAX: usize = 1_000;
/// The maximum length of a stored reason or error.
const TEXT_MAX_CHARS: usize = 1_000;

/// The end of a node's task.
#[derive(Clone, Debug)]
pub(crate) struct NodeEnd {
    pub(crate) key: NodeKey,
    pub(crate) attempt: u32,
    pub(crate) end: End,
    pub(crate) carried: Carried,
}

/// A caller's command.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    Cancel { reason: String },
    Retry,
    Skip { node: u32 },
}

#[derive(Clone, Debug, Default)]
pub(crate) struct StepRequest {
    ends: Vec<NodeEnd>,
    /// True to check every task that has not ended, as far as is known.
    look: bool,
    command: Option<Command>,
}

impl StepRequest {
    pub(crate) fn look() -> Self {
        Self { look: true, ..Self::default() }
    }

    pub(crate) fn ends(ends: Vec<NodeEnd>) -> Self {
        Self { ends, ..Self::default() }
    }

    pub(crate) fn command(command: Command) -> Self {
        Self { command: Some(command), ..Self::default() }
    }
}

/// The effect of a call: the workflow's state when the command was applied, and after all its immediate
/// consequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedRows {
    pub before: WorkflowState,
    pub after: WorkflowState,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Advanced {
    pub(crate) moved: bool,
    /// The states from the first step to the last. `None` if there was no step.
    pub(crate) states: Option<MovedRows>,
    pub(crate) refused: Option<Refused>,
}

/// The context in which a step is decided.
pub(crate) struct StepContext<'a> {
    pub(crate) inner: &'a WorkflowsState,
    pub(crate) stored: &'a StoredWorkflow,
    pub(crate) plan: &'a Arc<Plan>,
    pub(crate) marked: &'a Marked,
    /// The secret from which the ids of its tasks are derived.
    pub(crate) secret: Option<IdentitySecret>,
    pub(crate) run: Run,
    pub(crate) known: RowValues,
    /// References of existing tasks and workflows.
    pub(crate) refs: HashMap<NodeKey, String>,
    /// The beginnings of nodes whose tasks must be created; the others begin now.
    pub(crate) begun: HashMap<NodeKey, Millis>,
    pub(crate) now: Millis,
    reason: Option<String>,
}

/// The remaining work after a committed step.
struct Committed {
    ends: Vec<NodeEnd>,
    moved: bool,
    states: MovedRows,
    /// True if the check did not reach its end.
    look: bool,
}

impl WorkflowsState {
    /// Advances a workflow as far as possible now.
    pub(crate) async fn advance(
        &self,
        id: WorkflowId,
        request: StepRequest,
    ) -> Result<Advanced, BackendError> {
        let (mut request, mut done) = (request, Advanced::default());
        for _ in 0..ROUNDS_MAX {
            let step = self.step(id, &request).await;
            match step.map_err(|error| if done.moved { error.after_a_change() } else { error })? {
                Err(answer) => return Ok(Advanced { moved: done.moved, states: done.states, ..answer }),
                Ok(committed) => {
                    done.moved |= committed.moved;
                    done.states = match done.states {
                        Some(first) if committed.moved => {
                            Some(MovedRows { before: first.before, ..committed.states })
                        }
                        Some(first) => Some(first),
                        None => Some(committed.states),
                    };
                    if committed.ends.is_empty() && !committed.look {
                        return Ok(done);
                    }
                    request = StepRequest { ends: committed.ends, look: committed.look, command: None };
                }
            }
        }
        Ok(done)
    }

    /// Carries out a call: a refused command is an error.
    pub(crate) async fn carry_out(&self, id: WorkflowId, command: Command) -> Result<MovedRows, Error> {
        // An operator wants it to continue, or to end: earlier deaths of engines no longer count.
        let was_set_aside = self.release(id).await?;
        let is_retry = matches!(command, Command::Retry);
        let mut done = self.advance(id, StepRequest::command(command)).await;
        if was_set_aside && is_retry && done.as_ref().is_ok_and(|advanced| advanced.refused.is_some()) {
            // No node has failed: it continues where it was.
            done = self.advance(id, StepRequest::look()).await;
        }
        let done = done.map_err(|error| {
            let is_contended = error.happened == Happened::No && error.source.is::<Contended>();
            if is_contended { Error::Contended } else { error.into() }
        })?;
        match (done.refused, done.states) {
            (Some(refused), _) => Err(refused.into()),
            (None, Some(states)) => Ok(states),
            (None, None) => Err(Error::NotFound),
        }
    }

    async fn step(
        &self,
        id: WorkflowId,
        request: &StepRequest,
    ) -> Result<Result<Committed, Advanced>, BackendError> {
        for nth in 0..TRIES {
            let Some(stored) = self.store.workflow(id).await? else {
                return Ok(Err(Advanced::default()));
            };
            if stored.state.is_finished() && request.command.is_none() {
                return Ok(Err(Advanced::default()));
            }
            let Some(plan) = self.plan(&stored.namespace, stored.definition).await? else {
                if self.store.workflow(id).await?.is_none() {
                    return Ok(Err(Advanced::default()));
                }
                // It is postponed, to avoid repeated looks.
                return Err(BackendError::did_not_happen("move a workflow on", "its document is not there"));
            };
            let nodes = self.store.node_rows(id).await?;
            match self.once(&stored, &plan, nodes, request).await? {
                Once::Done(committed) => return Ok(Ok(committed)),
                Once::Refused(refused) => {
                    return Ok(Err(Advanced { refused: Some(refused), ..Advanced::default() }));
                }
                // The faster caller may have many of them: each waits its turn.
                Once::Lost => tokio::task::yield_now().await,
            }
            if nth + 1 == TRIES {
                tracing::warn!(workflow = %id, "others move a workflow on again and again; it is looked at later");
            }
        }
        Err(BackendError::did_not_happen("move a workflow on", Contended))
    }

    async fn once(
        &self,
        stored: &StoredWorkflow,
        plan: &Arc<Plan>,
        nodes: Vec<StoredNode>,
        request: &StepRequest,
    ) -> Result<Once, BackendError> {
        let marked = Marked::default();
        let done = self.once_marked(stored, plan, nodes, request, &marked).await;
        // An error is no death. If others were faster, or ends were left out, not everything was evaluated.
        let is_all = request.look && matches!(&done, Ok(Once::Done(committed)) if !committed.look);
        marked.end(self, stored.id, is_all).await;
        done
    }

    async fn once_marked(
        &self,
        stored: &StoredWorkflow,
        plan: &Arc<Plan>,
        nodes: Vec<StoredNode>,
        request: &StepRequest,
        marked: &Marked,
    ) -> Result<Once, BackendError> {
        let now = self.engine.now();
        let rows: BTreeMap<_, _> = nodes.iter().map(|node| (node.key, node.row)).collect();
        let run = Run::of(stored.state, stored.progress.ending, stored.progress.completed, rows);
        let refs = nodes.iter().filter_map(|node| Some((node.key, node.task_ref.clone()?))).collect();
        let unmade = nodes.iter().filter(|node| node.row.state.is_open() && !node.row.is_made);
        let begun = unmade.map(|node| (node.key, node.begun_at)).collect();
        let known = RowValues::default();
        let secret = self.secret_of(stored).await?;
        let mut step = StepContext {
            inner: self,
            stored,
            plan,
            marked,
            secret,
            run,
            known,
            refs,
            begun,
            now,
            reason: None,
        };
        if let Some(command) = &request.command
            && let Err(refused) = step.wished(command)
        {
            return Ok(Once::Refused(refused));
        }
        let (mut look_at, mut is_cut) = (None, false);
        if request.look {
            let looked = look::at_open(self, stored, plan, &nodes, now).await?;
            (look_at, is_cut) = (looked.next_at, looked.is_cut);
            step.take_in(looked.ended);
        }
        step.take_in(request.ends.clone());
        step.past_deadline(now);
        step.decide_all().await?;
        step.run.finish(&plan.graph);
        if step.run.adds_up(&plan.graph) {
            self.adrift.lock().remove(&stored.id);
        } else {
            tracing::error!(workflow = %stored.id, "a workflow does not add up: what it waits for cannot come");
            self.adrift.lock().insert(stored.id);
        }
        let done = step.commit(request, look_at, now).await?;
        Ok(match done {
            Once::Done(committed) => Once::Done(Committed { look: is_cut && committed.moved, ..committed }),
            other => other,
        })
    }

    /// Postpones a workflow.
    pub(crate) async fn later(
        &self,
        stored: StoredWorkflow,
        now: Millis,
        after_ms: i64,
    ) -> Result<usize, BackendError> {
        let wake_at = Some(now.plus(after_ms));
        let StoredWorkflow { id, step, state, progress, .. } = stored;
        let advance = AdvanceWorkflow { id, step, state, progress, wake_at, rows: Vec::new(), mark: None };
        self.store.advance_workflow(advance, now).await?;
        Ok(0)
    }
}

enum Once {
    Done(Committed),
    Refused(Refused),
    Lost,
}

impl StepContext<'_> {
    fn wished(&mut self, command: &Command) -> Result<(), Refused> {
        match command {
            Command::Cancel { reason } => {
                if self.run.state.is_finished() {
                    return Err(Refused::Finished);
                }
                if self.run.ending(Ending::Cancelled) {
                    self.reason = Some(reason.clone());
                }
                Ok(())
            }
            Command::Retry => {
                self.run.retry(&self.plan.graph)?;
                Ok(())
            }
            Command::Skip { node } => self.run.skip(*node),
        }
    }

    fn take_in(&mut self, ends: Vec<NodeEnd>) {
        for NodeEnd { key, attempt, end, carried } in ends {
            let was_ending = self.run.ending.is_some();
            if !self.run.end(&self.plan.graph, key, attempt, end) {
                continue;
            }
            if !was_ending && self.run.ending.is_some() {
                self.failed_because(key.node, carried.error.as_deref());
            }
            let is_passed = self.run.row(&key).is_some_and(|row| row.state == NodeState::Passed);
            let items = self.run.row(&NodeKey::node(key.node)).and_then(|row| row.items);
            let carried = match carried.result.as_ref().map(String::len) {
                // A manually skipped node has no result.
                _ if is_passed => because("it was skipped manually".to_owned()),
                Some(bytes) if bytes > most_bytes(items) => because(look::too_long(bytes)),
                _ => carried,
            };
            self.known.set(key, carried);
        }
    }

    pub(crate) fn failed_because(&mut self, node: u32, error: Option<&str>) {
        let name = self.plan.graph.name(node).map_or("", |name| name.as_str());
        let because = error.map(|error| format!(": {error}")).unwrap_or_default();
        self.reason.get_or_insert_with(|| format!("node {name:?} failed{because}"));
    }

    fn past_deadline(&mut self, now: Millis) {
        let is_past = self.stored.progress.deadline_at.is_some_and(|deadline_at| deadline_at <= now);
        let is_retried = self.stored.state.is_finished();
        if is_past && !is_retried && self.run.ending(Ending::Failed) {
            self.reason = Some("it was not over by its deadline".to_owned());
        }
    }

    fn progress(&self, request: &StepRequest, now: Millis) -> Progress {
        let before = &self.stored.progress;
        let reason = self.reason.as_deref().map(short);
        let is_retried = matches!(request.command, Some(Command::Retry));
        let anew = || self.plan.definition.deadline_ms.map(|deadline_ms| now.plus(deadline_ms));
        Progress {
            ending: self.run.ending,
            reason: match self.run.ending {
                Some(_) => reason.or_else(|| before.reason.clone()),
                None => None,
            },
            completed: self.run.completed,
            deadline_at: if is_retried { anew() } else { before.deadline_at },
            parent: before.parent,
            is_keyed: before.is_keyed,
        }
    }

    async fn commit(
        mut self,
        request: &StepRequest,
        look_at: Option<Millis>,
        now: Millis,
    ) -> Result<Once, BackendError> {
        let changed = self.run.take_changed();
        let progress = self.progress(request, now);
        let is_same =
            changed.is_empty() && self.run.state == self.stored.state && progress == self.stored.progress;
        let wake_at = self.wake_at(&progress, look_at, now);
        let unmade: Vec<NodeKey> = self.run.unmade().map(|unmade| *unmade.0).collect();
        // Earlier committed rows without a task are made by a look or a command, not by other steps.
        let makes = !is_same || request.look || request.command.is_some();
        let states = MovedRows { before: self.stored.state, after: self.run.state };
        if is_same && !request.look {
            return Ok(Once::Done(Committed { ends: Vec::new(), moved: false, states, look: false }));
        }
        let carried = |key: &NodeKey| self.known.changed.get(key).cloned().unwrap_or_default();
        let rows =
            changed.iter().map(|(key, row)| ChangedNode { key: *key, row: *row, carried: carried(key) });
        let advance = AdvanceWorkflow {
            id: self.stored.id,
            step: self.stored.step,
            state: self.run.state,
            progress,
            wake_at,
            rows: rows.collect(),
            mark: None,
        };
        if self.write(advance, now).await? == Applied::Lost {
            return Ok(Once::Lost);
        }
        // Failures from here on do not undo the commit.
        let mut ends = Vec::new();
        if makes && !unmade.is_empty() {
            ends.extend(make::make(&mut self, unmade).await.map_err(BackendError::after_a_change)?);
        }
        let begins_to_end = self.run.ending.is_some() && self.stored.progress.ending.is_none();
        if request.look || request.command.is_some() || begins_to_end {
            ends.extend(stop::stop(&self).await.map_err(BackendError::after_a_change)?);
        }
        Ok(Once::Done(Committed { ends, moved: !is_same, states, look: false }))
    }

    /// Commits the step. If it ends a workflow that is a node, a mark of the parent workflow is made with it,
    /// so that the surviving engines learn of the end.
    async fn write(&self, advance: AdvanceWorkflow, now: Millis) -> Result<Applied, BackendError> {
        let (inner, id) = (self.inner, self.stored.id);
        let is_over = advance.state.is_finished();
        let Some(parent) = self.stored.progress.parent.filter(|_| is_over) else {
            let applied = inner.store.advance_workflow(advance, now).await?;
            if is_over && applied == Applied::Moved {
                inner.adrift.lock().remove(&id);
            }
            return Ok(applied);
        };
        let above = WorkflowId(parent.workflow);
        let mark = inner.marks.awaits(above, now);
        let applied = inner.store.advance_workflow(AdvanceWorkflow { mark, ..advance }, now).await;
        if !matches!(applied, Ok(Applied::Moved)) {
            inner.marks.ends_handled(above, 1);
            return applied;
        }
        mark.into_iter().for_each(|mark| inner.marks.made(mark, now));
        inner.adrift.lock().remove(&id);
        inner.child_ended(id, parent);
        applied
    }

    /// The time of the next check, whatever is reported until then.
    fn wake_at(&self, progress: &Progress, look_at: Option<Millis>, now: Millis) -> Option<Millis> {
        if self.run.state.is_finished() {
            return None;
        }
        let soon = now.plus(self.inner.options.first_look_ms);
        let unmade = self.run.unmade().next().map(|_| soon);
        let stops = self.run.ending.is_some() && self.run.state == WorkflowState::Running;
        let current = self.stored.wake_at.filter(|wake_at| *wake_at > now);
        let next = look_at.or(current).unwrap_or(soon);
        let deadline = progress.deadline_at.filter(|_| progress.ending.is_none());
        let all = [Some(next), unmade, stops.then_some(soon), deadline];
        all.into_iter().flatten().min()
    }
}

fn because(error: String) -> Carried {
    Carried { error: Some(error), ..Carried::default() }
}

fn short(text: &str) -> String {
    text.chars().take(TEXT_MAX_CHARS).collect()
}

/// The stored form of an error.
pub(crate) fn kept(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| short(text))
}
