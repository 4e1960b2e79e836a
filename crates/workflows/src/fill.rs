//! Fills in the contents of one node's rows, some rows at a time, on a thread of the pool. Their common
//! variables are read once.

use crate::{
    Plan,
    advance::StepContext,
    evaluate::{self, OutOfTime, recorded},
    values::{Read, Sources, Text},
};
use punctual_contract::Error as BackendError;
use punctual_domain::workflow::{NodeKey, Role};
use punctual_expressions::{Budget, REQUEST_STEPS, TimeSlice, Value, Variables, read_json};
use std::sync::Arc;

/// A payload each, or why it cannot be filled in.
type Filled = Vec<Result<String, String>>;

/// Fills the templates of all rows of one node.
#[derive(Debug)]
pub(crate) struct Filling {
    pub(crate) node: u32,
    pub(crate) role: Role,
    /// All rows share the steps. The size of their results is bounded separately, because they are inserted
    /// as they are made.
    budget: Budget,
    common: Option<Arc<Common>>,
}

/// The variables of all rows.
#[derive(Debug)]
struct Common {
    variables: Variables,
    /// The array that they are the items of.
    items: Value,
}

/// The same, before and after it was read.
enum CommonValues {
    Stored(Sources, Option<String>),
    Read(Arc<Common>),
}

/// The variables of one row.
struct Own {
    index: Option<u32>,
    /// The result of the node that is undone, in compensations.
    result: Option<Text>,
}

impl Filling {
    pub(crate) fn of(node: u32, role: Role) -> Self {
        Self { node, role, budget: Budget::new(REQUEST_STEPS, u64::MAX), common: None }
    }

    /// Fills the template, in the order of the rows.
    pub(crate) async fn fill(
        &mut self,
        step: &StepContext<'_>,
        keys: &[NodeKey],
        text: &str,
    ) -> Result<Filled, BackendError> {
        let (node, role) = (self.node, self.role);
        match step.plan.template(node, role) {
            None => return Ok(vec![Ok(text.to_owned()); keys.len()]),
            Some(Err(problem)) => return Ok(vec![Err(problem.to_string()); keys.len()]),
            Some(Ok(_)) => {}
        }
        step.marked.begin(step.inner, step.stored).await?;
        let own: Vec<Own> = keys.iter().map(|key| own(step, key)).collect();
        let seen = match &self.common {
            Some(common) => CommonValues::Read(Arc::clone(common)),
            None => {
                let named = step.plan.read_by(node, role);
                let sources = step.known.sources(step.stored, step.plan, &step.run, named);
                CommonValues::Stored(sources, step.known.items(node))
            }
        };
        let (plan, mut budget) = (Arc::clone(step.plan), self.budget.clone());
        let work = move |pass: &TimeSlice| {
            budget.during(pass);
            let common = seen.read(&plan, node, role);
            let filled = match &common {
                Ok(common) => filled(&plan, (node, role), common, &own, &mut budget)?,
                Err(problem) => own.iter().map(|_| Err(problem.clone())).collect(),
            };
            Ok((filled, common.ok(), budget))
        };
        let (filled, common, budget) =
            evaluate::for_engine(step.inner.options.pool, &step.stored.namespace, work).await?;
        (self.common, self.budget) = (common, budget);
        Ok(filled)
    }
}

impl CommonValues {
    fn read(self, plan: &Plan, node: u32, role: Role) -> Result<Arc<Common>, String> {
        let (sources, items) = match self {
            Self::Read(common) => return Ok(common),
            Self::Stored(sources, items) => (sources, items),
        };
        let variables = Read::of(sources).variables(plan.read_by(node, role))?;
        let items = items.map_or(Ok(Value::Null), |text| read_json(&text))?;
        Ok(Arc::new(Common { variables, items }))
    }
}

fn own(step: &StepContext<'_>, key: &NodeKey) -> Own {
    let result = (key.role == Role::Compensation).then(|| {
        let done = NodeKey { role: Role::Action, ..*key };
        let state = step.run.row(&done).map(|row| row.state).unwrap_or_default();
        // A result that was not kept is null here: the work is undone nevertheless.
        step.known.own_result(&done, state).unwrap_or_default()
    });
    Own { index: key.item, result }
}

fn filled(
    plan: &Plan,
    (node, role): (u32, Role),
    common: &Common,
    own: &[Own],
    budget: &mut Budget,
) -> Result<Filled, OutOfTime> {
    let Some(Ok(template)) = plan.template(node, role) else { return Ok(Vec::new()) };
    let one = |own: &Own| match variables(common, own) {
        Ok(own) => match template.fill(&common.variables, &own, budget) {
            Ok(text) => Ok(Ok(text)),
            Err(problem) => recorded(problem).map(Err),
        },
        Err(problem) => Ok(Err(problem)),
    };
    own.iter().map(one).collect()
}

fn variables(common: &Common, own: &Own) -> Result<Variables, String> {
    let mut variables = Variables::new();
    if let Some(index) = own.index {
        let place = usize::try_from(index).unwrap_or(usize::MAX);
        let item = match &common.items {
            Value::List(items) => items.get(place).cloned(),
            _ => None,
        };
        variables.push(("item", item.unwrap_or(Value::Null)));
        variables.push(("index", index.into()));
    }
    if let Some(result) = &own.result {
        variables.push(("result", result.read()?));
    }
    Ok(variables)
}
