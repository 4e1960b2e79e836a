//! Access rules: roles and their permissions, in one table; the namespaces and queues that a token reaches;
//! its secret. Pure: random numbers are arguments, and nothing here knows the caller.

mod grant;
mod pattern;
mod secret;

pub use grant::Grant;
pub use pattern::{InvalidPattern, Pattern};
pub use secret::{Secret, SecretHash, TokenId};

use serde::{Deserialize, Serialize};

/// The purpose of a token, which has one or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Reads everything and changes nothing.
    Viewer,
    /// Inserts tasks, and changes and cancels them.
    Submitter,
    /// Leases tasks and reports their outcomes.
    Executor,
    /// Keeps queues and executors at work.
    Operator,
    /// May do everything.
    Admin,
}

/// The permission that a call needs. Each route is registered with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// Tasks, queues, dead letters, executors, alerts, limits.
    Read,
    /// New tasks.
    Insert,
    /// Cancel, reschedule, run now.
    ChangeTasks,
    /// Dead tasks get their attempts again.
    Redrive,
    /// Lease, outcomes, heartbeats.
    Execute,
    /// Schedules and their manual runs.
    ManageSchedules,
    /// Settings and pauses of queues; executors are sent home.
    Operate,
    /// Limits of namespaces, and of everything.
    ManageNamespaces,
    /// Tokens.
    ManageAccess,
    ReadAudit,
    ReadMetrics,
}

impl Role {
    pub const ALL: [Self; 5] = [Self::Viewer, Self::Submitter, Self::Executor, Self::Operator, Self::Admin];

    /// The table. `docs/access.md` has the same one, and a test compares them.
    #[must_use]
    pub const fn permissions(self) -> &'static [Permission] {
        match self {
            Self::Viewer => &[Permission::Read, Permission::ReadMetrics],
            Self::Submitter => {
                &[Permission::Read, Permission::Insert, Permission::ChangeTasks, Permission::ManageSchedules]
            }
            Self::Executor => &[Permission::Execute],
            Self::Operator => &[
                Permission::Read,
                Permission::ChangeTasks,
                Permission::ManageSchedules,
                Permission::Redrive,
                Permission::Operate,
                Permission::ReadMetrics,
            ],
            Self::Admin => &Permission::ALL,
        }
    }

    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Submitter => "submitter",
            Self::Executor => "executor",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    /// Returns `None` if no role has this name.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.word() == word)
    }
}

impl Permission {
    pub const ALL: [Self; 11] = [
        Self::Read,
        Self::Insert,
        Self::ChangeTasks,
        Self::ManageSchedules,
        Self::Redrive,
        Self::Execute,
        Self::Operate,
        Self::ManageNamespaces,
        Self::ManageAccess,
        Self::ReadAudit,
        Self::ReadMetrics,
    ];

    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Insert => "insert",
            Self::ChangeTasks => "change_tasks",
            Self::ManageSchedules => "manage_schedules",
            Self::Redrive => "redrive",
            Self::Execute => "execute",
            Self::Operate => "operate",
            Self::ManageNamespaces => "manage_namespaces",
            Self::ManageAccess => "manage_access",
            Self::ReadAudit => "read_audit",
            Self::ReadMetrics => "read_metrics",
        }
    }
}

/// The table of roles and permissions, as `docs/access.md` shows it.
#[must_use]
pub fn table() -> String {
    let mut page = String::from("| permission |");
    for role in Role::ALL {
        page.push_str(&format!(" {} |", role.word()));
    }
    page.push_str("\n|---|");
    page.push_str(&"---|".repeat(Role::ALL.len()));
    page.push('\n');
    for permission in Permission::ALL {
        page.push_str(&format!("| `{}` |", permission.word()));
        for role in Role::ALL {
            page.push_str(if role.permissions().contains(&permission) { " yes |" } else { " |" });
        }
        page.push('\n');
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_roles_lead_back_and_are_those_that_are_stored() {
        for role in Role::ALL {
            assert_eq!(Role::from_word(role.word()), Some(role));
            assert_eq!(serde_json::to_value(role).unwrap(), role.word());
        }
        assert_eq!(Role::from_word("root"), None);
    }

    #[test]
    fn every_permission_is_in_the_list_and_an_admin_has_them_all() {
        for permission in Permission::ALL {
            assert!(Role::Admin.permissions().contains(&permission));
            let held = Role::ALL.iter().filter(|role| role.permissions().contains(&permission)).count();
            assert!(held >= 1, "{}", permission.word());
        }
        let mut all = Permission::ALL.to_vec();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), Permission::ALL.len());
    }

    #[test]
    fn nobody_but_an_admin_manages_access_or_reads_the_audit() {
        for role in Role::ALL {
            for permission in [Permission::ManageAccess, Permission::ReadAudit, Permission::ManageNamespaces]
            {
                assert_eq!(role.permissions().contains(&permission), role == Role::Admin, "{role:?}");
            }
        }
    }

    #[test]
    fn the_page_has_the_table() {
        let page = include_str!("../../../docs/access.md");
        assert!(page.contains(&table()), "docs/access.md must have:\n{}", table());
    }
}
