//! Decides if a node whose join holds runs, and over what: its condition and its array.

use crate::{
    Plan,
    advance::StepContext,
    evaluate::{self, OutOfTime, recorded},
    values::{NODES_AT_ONCE, Read},
};
use punctual_contract::{Error as BackendError, workflows::Carried};
use punctual_domain::workflow::{Decision, ITEMS_MAX, NodeKey};
use punctual_expressions::{Budget, Expression, Problem, TimeSlice, Value, Variables};
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

/// Longest array of a fan-out, as text.
const ITEMS_MAX_BYTES: usize = 1 << 20;

/// The decision with the array that the node runs over, as text; or the reason why it has none.
type Decided = Result<(Decision, Option<String>), String>;

impl StepContext<'_> {
    /// Decides nodes until nothing more follows.
    pub(crate) async fn decide_all(&mut self) -> Result<(), BackendError> {
        loop {
            let ready = self.run.settle(&self.plan.graph);
            if ready.is_empty() {
                return Ok(());
            }
            let plan = self.plan;
            for some in ready.chunks(NODES_AT_ONCE) {
                let named = some.iter().flat_map(|node| plan.read_by_decision(*node));
                self.known.read(self.inner, self.stored, named).await?;
                let decided = self.decided(some).await?;
                self.decide_some(some, decided);
            }
        }
    }

    fn decide_some(&mut self, nodes: &[u32], mut decided: HashMap<u32, Decided>) {
        let plan = self.plan;
        for node in nodes.iter().copied() {
            // An earlier failure may have ended the workflow.
            if self.run.ending.is_some() {
                break;
            }
            let (decision, carried) = match decided.remove(&node) {
                None => (Decision::Run, Carried::default()),
                Some(Ok((decision, items))) => (decision, Carried { items, ..Carried::default() }),
                Some(Err(problem)) => {
                    self.failed_because(node, Some(&problem));
                    (Decision::Fail, Carried { error: Some(problem), ..Carried::default() })
                }
            };
            self.run.decide(&plan.graph, node, decision);
            self.known.set(NodeKey::node(node), carried);
        }
    }

    /// Evaluates nodes with a condition or an array: the nodes that they name have ended, so none affects
    /// another.
    async fn decided(&self, nodes: &[u32]) -> Result<HashMap<u32, Decided>, BackendError> {
        let plan = Arc::clone(self.plan);
        let asked: Vec<u32> = nodes.iter().copied().filter(|node| plan.is_decided(*node)).collect();
        if asked.is_empty() {
            return Ok(HashMap::new());
        }
        self.marked.begin(self.inner, self.stored).await?;
        let named: BTreeSet<u32> = asked.iter().flat_map(|node| plan.read_by_decision(*node)).collect();
        let sources = self.known.sources(self.stored, &plan, &self.run, named.into_iter());
        let work = move |pass: &TimeSlice| {
            let (mut read, mut budget) = (Read::of(sources), Budget::of_request(pass));
            let one = |node| decision(&plan, node, &mut read, &mut budget).map(|decision| (node, decision));
            asked.into_iter().map(one).collect()
        };
        evaluate::for_engine(self.inner.options.pool, &self.stored.namespace, work).await
    }
}

fn decision(plan: &Plan, node: u32, read: &mut Read, budget: &mut Budget) -> Result<Decided, OutOfTime> {
    let variables = match read.variables(plan.read_by_decision(node)) {
        Ok(variables) => variables,
        Err(problem) => return Ok(Err(problem)),
    };
    if let Some(when) = plan.when(node) {
        match value(when, &variables, budget) {
            Ok((_, Value::Bool(true))) => {}
            Ok((_, Value::Bool(false))) => return Ok(Ok((Decision::Skip, None))),
            Ok((text, other)) => {
                return Ok(Err(format!("expression {text:?}: it gives {other}, and not true or false")));
            }
            Err(problem) => return recorded(problem).map(Err),
        }
    }
    match plan.for_each(node).map(|result| value(result, &variables, budget)) {
        None => Ok(Ok((Decision::Run, None))),
        Some(Ok((text, value))) => Ok(items(text, &value)),
        Some(Err(problem)) => recorded(problem).map(Err),
    }
}

fn value<'e>(
    expression: &'e Result<Expression, Problem>,
    variables: &Variables,
    budget: &mut Budget,
) -> Result<(&'e str, Value), Problem> {
    let expression = expression.as_ref().map_err(Clone::clone)?;
    Ok((expression.text(), expression.value(variables, &[], budget)?))
}

fn items(text: &str, value: &Value) -> Decided {
    let Value::List(all) = value else {
        return Err(format!("expression {text:?}: it gives no array"));
    };
    let count = u32::try_from(all.len()).ok().filter(|_| all.len() <= ITEMS_MAX);
    let Some(count) = count else {
        return Err(format!("expression {text:?}: it gives {} items, and may give {ITEMS_MAX}", all.len()));
    };
    let items = value
        .to_json(ITEMS_MAX_BYTES)
        .map_err(|problem| format!("expression {text:?}: its items: {problem}"))?;
    Ok((Decision::Each(count), Some(items)))
}
