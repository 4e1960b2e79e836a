//! The identity of a node's task. Its id depends only on workflow, node, item, attempt and a secret of the
//! cluster. So every engine that makes the task makes the same one, and no caller can use its id first. A
//! durable format: after a change here, earlier tasks would be made again.

use super::Role;
use crate::{
    identity::{IdentitySecret, negative_id},
    name::Name,
    time::Millis,
};

#[derive(Clone, Copy, Debug)]
pub struct NodeIdentity<'a> {
    pub workflow: i64,
    /// The creation time of the workflow: its id alone might recur in a database that was reset.
    pub created_at: Millis,
    pub node: &'a Name,
    pub item: Option<u32>,
    pub role: Role,
    pub attempt: u32,
}

impl NodeIdentity<'_> {
    /// `salt`: 0, and the next where another task has that id already. Without a secret: of a workflow that an older program
    /// has begun, whose tasks keep the ids that they were made by.
    #[must_use]
    pub fn task_id(&self, secret: Option<&IdentitySecret>, salt: u8) -> i64 {
        let mut hasher = secret.map_or_else(blake3::Hasher::new, IdentitySecret::hasher);
        hasher
            .update(b"workflow")
            .update(&self.workflow.to_le_bytes())
            .update(&self.created_at.0.to_le_bytes());
        hasher.update(self.node.as_str().as_bytes()).update(&[0, self.role.code(), salt]);
        let item = self.item.map_or(-1, i64::from);
        hasher.update(&item.to_le_bytes()).update(&self.attempt.to_le_bytes());
        negative_id(&hasher.finalize())
    }
}
