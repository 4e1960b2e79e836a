//! Whether a node whose join holds runs, and over what: its condition and its array.

use crate::{Plan, advance::Step, values::NODES_AT_ONCE};
use punctual_contract::{Error as BackendError, workflows::Carried};
use punctual_domain::workflow::{Decision, ITEMS_MAX, NodeKey};
use punctual_expressions::{Variables, evaluate};
use serde_json::Value;

/// Longest array of a fan-out, as text.
const ITEMS_MAX_BYTES: usize = 1 << 20;

impl Step<'_> {
    /// Decides what can be decided, until nothing more follows.
    pub(crate) async fn decide_all(&mut self) -> Result<(), BackendError> {
        loop {
            let ready = self.run.settle(&self.plan.graph);
            if ready.is_empty() {
                return Ok(());
            }
            let plan = self.plan;
            for some in ready.chunks(NODES_AT_ONCE) {
                let named = some.iter().flat_map(|it| plan.read_by_decision(*it));
                self.known.read(self.inner, self.stored, named).await?;
                self.decide_some(some);
            }
        }
    }

    fn decide_some(&mut self, nodes: &[u32]) {
        let plan = self.plan;
        for node in nodes.iter().copied() {
            // What failed before it may have ended the workflow.
            if self.run.ending.is_some() {
                break;
            }
            let (decision, carried) = self.decided(plan, node);
            if decision == Decision::Fail {
                self.failed_because(node, carried.error.as_deref());
            }
            self.run.decide(&plan.graph, node, decision);
            self.known.set(NodeKey::node(node), carried);
        }
    }

    fn decided(&self, plan: &Plan, node: u32) -> (Decision, Carried) {
        match self.decision(plan, node) {
            Ok((decision, items)) => (decision, Carried { items, ..Carried::default() }),
            Err(problem) => (Decision::Fail, Carried { error: Some(problem), ..Carried::default() }),
        }
    }

    fn decision(&self, plan: &Plan, node: u32) -> Result<(Decision, Option<String>), String> {
        let Some(document) = plan.node(node) else { return Err("is not in the document".to_owned()) };
        if document.when.is_none() && document.for_each.is_none() {
            return Ok((Decision::Run, None));
        }
        let named = plan.read_by_decision(node);
        let variables = self.known.variables(self.stored, plan, &self.run, named)?;
        if let Some(when) = &document.when {
            match evaluate(when, variables.clone())? {
                Value::Bool(true) => {}
                Value::Bool(false) => return Ok((Decision::Skip, None)),
                other => return Err(format!("expression {when:?}: it gives {other}, and not true or false")),
            }
        }
        document.for_each.as_ref().map_or(Ok((Decision::Run, None)), |it| items(it, variables))
    }
}

fn items(text: &str, variables: Variables) -> Result<(Decision, Option<String>), String> {
    let Value::Array(all) = evaluate(text, variables)? else {
        return Err(format!("expression {text:?}: it gives no array"));
    };
    let count = u32::try_from(all.len()).ok().filter(|_| all.len() <= ITEMS_MAX);
    let Some(count) = count else {
        return Err(format!("expression {text:?}: it gives {} items, and may give {ITEMS_MAX}", all.len()));
    };
    let items = Value::Array(all).to_string();
    if items.len() > ITEMS_MAX_BYTES {
        return Err(format!("expression {text:?}: its items have more than {ITEMS_MAX_BYTES} bytes"));
    }
    Ok((Decision::Each(count), Some(items)))
}
