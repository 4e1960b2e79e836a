//! What the task of a node is called: its id comes from workflow, node, item and attempt, and from nothing else, so that
//! whoever makes it makes the same task. A durable format: a change here makes tasks twice that were made before it.

use super::Role;
use crate::{name::Name, time::Millis};

/// Ids of this width are exact in JavaScript.
const BITS: u32 = 53;

#[derive(Clone, Copy, Debug)]
pub struct NodeIdentity<'a> {
    pub workflow: i64,
    /// Of the workflow: its id alone might come again in a database that was set back.
    pub created_at: Millis,
    pub node: &'a Name,
    pub item: Option<u32>,
    pub role: Role,
    pub attempt: u32,
}

impl NodeIdentity<'_> {
    /// Negative: callers count upwards from 1, and the engine from 2^52. `salt`: 0, and the next where another task has
    /// that id already.
    #[must_use]
    pub fn task_id(&self, salt: u8) -> i64 {
        let mut hasher = blake3::Hasher::new();
        hasher
            .update(b"workflow")
            .update(&self.workflow.to_le_bytes())
            .update(&self.created_at.0.to_le_bytes());
        hasher.update(self.node.as_str().as_bytes()).update(&[0, self.role.code(), salt]);
        let item = self.item.map_or(-1, i64::from);
        hasher.update(&item.to_le_bytes()).update(&self.attempt.to_le_bytes());
        let [a, b, c, d, e, f, g, h, ..] = *hasher.finalize().as_bytes();
        let kept = u64::from_le_bytes([a, b, c, d, e, f, g, h]) >> (u64::BITS - BITS);
        -i64::try_from(kept).unwrap_or(0) - 1
    }
}
