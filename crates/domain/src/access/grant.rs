//! The permissions of a token, and their scope.

use super::{Pattern, Permission, Role};
use crate::name::{Name, QueueKey};
use serde::{Deserialize, Serialize};

/// A grant of all its roles in all its namespaces and all its queues. Stored as JSON: a field is never renamed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    pub roles: Vec<Role>,
    pub namespaces: Vec<Pattern>,
    pub queues: Vec<Pattern>,
}

impl Grant {
    /// One role, everywhere.
    #[must_use]
    pub fn everywhere(role: Role) -> Self {
        Self { roles: vec![role], namespaces: vec![Pattern::All], queues: vec![Pattern::All] }
    }

    /// True if one of the roles has the permission, in any scope.
    #[must_use]
    pub fn permits(&self, permission: Permission) -> bool {
        self.roles.iter().any(|role| role.permissions().contains(&permission))
    }

    #[must_use]
    pub fn reaches_namespace(&self, namespace: &Name) -> bool {
        self.namespaces.iter().any(|pattern| pattern.matches(namespace))
    }

    #[must_use]
    pub fn reaches(&self, queue: &QueueKey) -> bool {
        self.reaches_namespace(&queue.namespace)
            && self.queues.iter().any(|pattern| pattern.matches(&queue.queue))
    }

    #[must_use]
    pub fn allows(&self, permission: Permission, queue: &QueueKey) -> bool {
        self.permits(permission) && self.reaches(queue)
    }

    /// All queues of the namespaces that it reaches.
    #[must_use]
    pub fn reaches_all_queues(&self) -> bool {
        self.queues.contains(&Pattern::All)
    }

    #[must_use]
    pub fn reaches_everything(&self) -> bool {
        self.namespaces.contains(&Pattern::All) && self.reaches_all_queues()
    }

    /// True if `other` grants nothing beyond this grant: no caller may grant more than it has.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let permitted = |role: &Role| role.permissions().iter().all(|permission| self.permits(*permission));
        let within = |mine: &[Pattern], theirs: &[Pattern]| {
            theirs.iter().all(|their| mine.iter().any(|pattern| pattern.covers(their)))
        };
        other.roles.iter().all(permitted)
            && within(&self.namespaces, &other.namespaces)
            && within(&self.queues, &other.queues)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(texts: &[&str]) -> Vec<Pattern> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn grant(role: Role, namespaces: &[&str], queues: &[&str]) -> Grant {
        Grant { roles: vec![role], namespaces: patterns(namespaces), queues: patterns(queues) }
    }

    fn queue(namespace: &str, queue: &str) -> QueueKey {
        QueueKey { namespace: Name::new(namespace).unwrap(), queue: Name::new(queue).unwrap() }
    }

    #[test]
    fn role_namespace_and_queue_must_all_allow_it() {
        let grant = grant(Role::Submitter, &["shop", "team-*"], &["mail-*"]);
        for (permission, at, allowed) in [
            (Permission::Insert, queue("shop", "mail-eu"), true),
            (Permission::Insert, queue("team-a", "mail-eu"), true),
            (Permission::Insert, queue("shop", "orders"), false),
            (Permission::Insert, queue("other", "mail-eu"), false),
            (Permission::Redrive, queue("shop", "mail-eu"), false),
        ] {
            assert_eq!(grant.allows(permission, &at), allowed, "{permission:?} {at:?}");
        }
        assert!(!grant.reaches_everything() && Grant::everywhere(Role::Viewer).reaches_everything());
    }

    #[test]
    fn a_grant_without_namespaces_or_queues_reaches_nothing() {
        assert!(!grant(Role::Admin, &[], &["*"]).reaches(&queue("a", "b")));
        assert!(!grant(Role::Admin, &["*"], &[]).reaches(&queue("a", "b")));
    }

    #[test]
    fn nobody_gives_more_than_they_have() {
        let admin_of_a = grant(Role::Admin, &["a"], &["*"]);
        assert!(admin_of_a.covers(&grant(Role::Admin, &["a"], &["*"])));
        assert!(admin_of_a.covers(&grant(Role::Viewer, &["a"], &["mail"])));
        assert!(!admin_of_a.covers(&grant(Role::Viewer, &["*"], &["mail"])));
        assert!(!admin_of_a.covers(&grant(Role::Viewer, &["a", "b"], &["mail"])));
        let operator = grant(Role::Operator, &["*"], &["mail-*"]);
        assert!(operator.covers(&grant(Role::Viewer, &["x"], &["mail-eu", "mail-us-*"])));
        assert!(!operator.covers(&grant(Role::Viewer, &["x"], &["*"])));
        assert!(!operator.covers(&grant(Role::Submitter, &["x"], &["mail-eu"])), "it cannot insert");
    }
}
