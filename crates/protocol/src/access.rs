//! Tokens and the audit: which callers are allowed, and what each of them changed.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::fields::{Checks, FieldError, Invalid};
use crate::limits::{
    DURATION_MAX_MS, INSTANT_MAX_MS, PAGE_MAX, TOKEN_GRACE_MAX_MS, TOKEN_NAME_MAX_CHARS,
    TOKEN_OVERLAP_MS_DEFAULT, TOKEN_PATTERNS_MAX,
};
use crate::{At, TimeBound, parse};

/// The purpose of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
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

impl Role {
    pub const ALL: [Self; 5] = [Self::Viewer, Self::Submitter, Self::Executor, Self::Operator, Self::Admin];

    /// The role's name on the wire.
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
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.word() == word)
    }

    /// Describes the role to a person who chooses one.
    pub const fn means(self) -> &'static str {
        match self {
            Self::Viewer => "Looks at everything and changes nothing",
            Self::Submitter => "Inserts tasks, and changes and cancels them",
            Self::Executor => "Leases tasks and reports what became of them; cannot use the console",
            Self::Operator => "Keeps queues and executors at work",
            Self::Admin => "May do everything",
        }
    }
}

/// A token to be made. Its roles hold in its namespaces, for its queues.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// Human-readable name, shown in lists, histories and the audit log.
    #[schema(example = "billing", max_length = 128)]
    pub name: String,
    pub roles: Vec<Role>,
    /// `*`, names, or prefixes that end with a star, such as `shop-*`. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = json!(["shop"]))]
    pub namespaces: Option<Vec<String>>,
    /// The same for queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = json!(["mail-*"]))]
    pub queues: Option<Vec<String>>,
    /// Default: the token does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<i64>,
    /// Only for the first token. Requests without a token are still accepted for this many milliseconds after the
    /// creation of this token, so that you can give workers and clients their tokens. Maximum: 30 days. Default: 0, a
    /// token is required at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 2_592_000_000_i64)]
    pub grace_ms: Option<i64>,
}

impl CreateToken {
    pub fn from_json(json: &[u8]) -> Result<Self, Invalid> {
        let create_token: Self = parse(json)?;
        create_token.check()?;
        Ok(create_token)
    }

    /// Every rule but that of patterns, which is the domain's.
    pub fn check(&self) -> Result<(), Invalid> {
        let mut checks = Checks::default();
        checks.text("/name", Some(&self.name), TOKEN_NAME_MAX_CHARS);
        if self.name.chars().any(char::is_control) {
            checks.refuse("/name", "must not have control characters");
        }
        if self.roles.is_empty() {
            checks.refuse("/roles", "must have at least one of viewer, submitter, executor, operator, admin");
        }
        for (pointer, patterns) in [("/namespaces", &self.namespaces), ("/queues", &self.queues)] {
            let count = patterns.as_ref().map(Vec::len);
            checks.range(pointer, count, 1..=TOKEN_PATTERNS_MAX);
        }
        checks.range("/expires_at_ms", self.expires_at_ms, 0..=INSTANT_MAX_MS);
        checks.range("/grace_ms", self.grace_ms, 1..=TOKEN_GRACE_MAX_MS);
        if self.expires_at.is_some() && self.expires_at_ms.is_some() {
            checks.refuse("/expires_at_ms", "does not go with expires_at: give one of them");
        }
        checks.done()
    }

    /// Epoch milliseconds.
    pub fn expires_ms(&self) -> Option<i64> {
        self.expires_at.map(At::ms).or(self.expires_at_ms)
    }
}

/// Gives a token a new secret. The body is optional.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateToken {
    /// Time in milliseconds for which the previous secret stays valid. Default: one hour. 0 revokes the previous
    /// secret at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub overlap_ms: Option<i64>,
}

impl RotateToken {
    pub fn from_json(json: &[u8]) -> Result<Self, Invalid> {
        let rotate_token: Self = if json.trim_ascii().is_empty() { Self::default() } else { parse(json)? };
        let mut checks = Checks::default();
        checks.span("/overlap_ms", rotate_token.overlap_ms, 0..=DURATION_MAX_MS);
        checks.done()?;
        Ok(rotate_token)
    }

    pub fn overlap_ms(&self) -> i64 {
        self.overlap_ms.unwrap_or(TOKEN_OVERLAP_MS_DEFAULT)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenState {
    Active,
    Expired,
    Revoked,
}

/// Query parameters of `GET /v1/tokens`.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema, utoipa::IntoParams,
)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListTokens {
    /// Only tokens in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(inline)]
    pub state: Option<TokenState>,
    /// Items per page, 1 to 1,000. Default: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next_cursor` of the preceding page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

impl ListTokens {
    /// Every rule.
    pub fn check(&self) -> Result<(), Invalid> {
        let mut checks = Checks::default();
        checks.range("/limit", self.limit, 1..=PAGE_MAX);
        checks.done()
    }
}

/// The value of `Authorization: Bearer`. Never printed by `Debug`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct Revealed(pub String);

impl fmt::Debug for Revealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Revealed(..)")
    }
}

/// A token as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AccessToken {
    #[schema(example = "k3jx7qa2mnop")]
    pub id: String,
    /// The value of `Authorization: Bearer`: only in the answer that created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub token: Option<Revealed>,
    pub name: String,
    pub state: TokenState,
    pub roles: Vec<Role>,
    pub namespaces: Vec<String>,
    pub queues: Vec<String>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: At,
    pub created_at_ms: i64,
    pub created_by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub rotated_at: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotated_at_ms: Option<i64>,
    /// The previous secret stays valid until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub previous_until: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_until_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub revoked_at: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_by: Option<String>,
    /// Requests without a token are accepted until then. Set for the first token, if it was made with `grace_ms`, and for tokens made before that instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub required_at: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_at_ms: Option<i64>,
    /// Accurate to about a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub used_at: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_at_ms: Option<i64>,
}

/// The caller, and its permissions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Me {
    /// The name of the token; `local` if no tokens exist.
    #[schema(example = "billing")]
    pub name: String,
    /// Absent if no tokens exist, or if the token is the one in the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_id: Option<String>,
    /// False if no token exists, or none is required yet. Then every caller may do everything.
    pub needs_token: bool,
    pub roles: Vec<Role>,
    /// The permissions of the roles: the words of `x-permission` in this document.
    #[schema(example = json!(["read", "change_tasks"]))]
    pub permissions: Vec<String>,
    pub namespaces: Vec<String>,
    pub queues: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<i64>,
}

/// An action of a caller, or an attempted one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AuditEntry {
    pub id: i64,
    #[schema(value_type = String, format = DateTime)]
    pub at: At,
    pub at_ms: i64,
    /// Absent if no token exists, if none was valid, or if a command changed the store directly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_id: Option<String>,
    /// The name of the token; otherwise `local`, `unknown` or `command`.
    pub caller: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "192.0.2.7")]
    pub address: Option<String>,
    /// The `operationId`, or the command.
    #[schema(example = "pause_queue")]
    pub action: String,
    #[schema(example = "POST /v1/queues/mail/pause")]
    pub request: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The number of occurrences. Refused attempts of one token and address are counted together for each minute.
    pub times: i64,
    /// Absent: the result is unknown. The action is running, or the server died after the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub completed_at: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The earlier state of the settings or the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub before: Option<serde_json::Value>,
    /// The new state of the settings or the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub after: Option<serde_json::Value>,
}

/// Query parameters of `GET /v1/audit`. All given conditions must hold.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema, utoipa::IntoParams,
)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SearchAudit {
    /// The id of a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(example = "pause_queue")]
    pub action: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Only entries at or after this instant: RFC 3339 or epoch milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>)]
    pub since: Option<TimeBound>,
    /// Only entries before this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>)]
    pub until: Option<TimeBound>,
    /// Items per page, 1 to 1,000. Default: 100. Ignored for an export.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next_cursor` of the preceding page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

impl SearchAudit {
    /// Every rule.
    pub fn check(&self) -> Result<(), Invalid> {
        let mut checks = Checks::default();
        checks.range("/limit", self.limit, 1..=PAGE_MAX);
        if let Some(namespace) = &self.namespace {
            checks.name("/namespace", namespace);
        }
        checks.done()
    }
}

/// The fault of an invalid pattern, by its place.
pub fn pattern_fault(list: &str, nth: usize, problem: impl fmt::Display) -> FieldError {
    FieldError::new(format!("/{list}/{nth}"), problem.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(json: &str) -> Vec<String> {
        let faults = CreateToken::from_json(json.as_bytes()).unwrap_err().errors;
        faults.into_iter().map(|error| error.pointer).collect()
    }

    #[test]
    fn every_fault_of_a_new_token_is_named() {
        let json = r#"{"name":"","roles":[],"namespaces":[],"queues":[],"expires_at_ms":-1}"#;
        assert_eq!(faults(json), ["/name", "/roles", "/namespaces", "/queues", "/expires_at_ms"]);
        assert_eq!(faults(r#"{"name":"a","roles":["root"]}"#), ["/roles/0"]);
        assert_eq!(faults(r#"{"name":"a\nb","roles":["viewer"]}"#), ["/name"]);
        assert_eq!(faults(r#"{"name":"a","roles":["viewer"],"queue":"x"}"#), ["/queue"]);
    }

    #[test]
    fn a_revealed_token_is_written_and_not_printed() {
        let revealed = Revealed("punctual_x".to_owned());
        assert_eq!(serde_json::to_string(&revealed).unwrap(), r#""punctual_x""#);
        assert!(!format!("{revealed:?}").contains("punctual_x"));
    }

    #[test]
    fn a_rotation_may_say_nothing() {
        assert_eq!(RotateToken::from_json(b"").unwrap().overlap_ms(), 3_600_000);
        assert_eq!(RotateToken::from_json(br#"{"overlap_ms":0}"#).unwrap().overlap_ms(), 0);
        assert!(RotateToken::from_json(br#"{"overlap_ms":-1}"#).is_err());
    }
}
