//! The common code of both back ends for workflows: texts, codes, and the columns of rows.

use crate::runs;
use punctual_contract::workflows::{AdvanceWorkflow, ChangedNode, NewWorkflow, WorkflowQuery};
use punctual_domain::{
    name::Name,
    time::Millis,
    workflow::{NodeKey, NodeRow, NodeState, Role, fingerprint},
};

/// A document may have been used so long ago without a note of it.
pub(crate) const USED_WITHIN_MS: i64 = 3_600_000;

/// A document as it is stored, and the hash by which the same is found.
pub(crate) struct Document {
    pub(crate) name: String,
    pub(crate) body: String,
    pub(crate) hash: String,
}

pub(crate) fn document(new: &NewWorkflow) -> Document {
    let body = runs::text(new.definition.as_ref());
    let hash = fingerprint(&body);
    let name = new.definition.name.as_ref().map_or_else(String::new, |name| name.as_str().to_owned());
    Document { name, body, hash }
}

/// Empty: it has none.
pub(crate) fn name(text: &str) -> Option<Name> {
    Name::new(text).ok()
}

pub(crate) fn below(query: &WorkflowQuery) -> i64 {
    query.before.map_or(i64::MAX, |id| id.0)
}

pub(crate) fn finished_at(advance: &AdvanceWorkflow, now: Millis) -> Option<i64> {
    advance.state.is_finished().then_some(now.0)
}

/// The item of a key: -1 is the node itself.
pub(crate) fn item(key: &NodeKey) -> i64 {
    key.item.map_or(-1, i64::from)
}

/// Returns `None` if there are no such codes.
pub(crate) fn key(node: i64, item: i64, role: u8) -> Option<NodeKey> {
    let item = if item < 0 { None } else { Some(u32::try_from(item).ok()?) };
    Some(NodeKey { node: u32::try_from(node).ok()?, item, role: Role::from_code(role)? })
}

/// Returns `None` if there is no such state, or if numbers are too large.
pub(crate) fn row(
    state: u8,
    attempt: i64,
    order: Option<i64>,
    items: Option<i64>,
    is_made: bool,
) -> Option<NodeRow> {
    Some(NodeRow {
        state: NodeState::from_code(state)?,
        attempt: u32::try_from(attempt).ok()?,
        is_made,
        order: order.and_then(|order| u64::try_from(order).ok()),
        items: items.and_then(|number| u32::try_from(number).ok()),
    })
}

pub(crate) fn ended_at(node: &ChangedNode, now: Millis) -> Option<i64> {
    node.row.state.has_ended().then_some(now.0)
}

pub(crate) fn order(node: &ChangedNode) -> Option<i64> {
    node.row.order.and_then(|order| i64::try_from(order).ok())
}
