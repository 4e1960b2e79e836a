//! Namespaces: their settings, their contents, and the progress of their deletion.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::fields::{Checks, Invalid};
use crate::limits::{PAGE_MAX, PAUSE_REASON_MAX_CHARS};
use crate::{At, FieldError, Limits, PutLimits, parse};

/// A namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Namespace {
    #[serde(flatten)]
    pub limits: Limits,
    #[serde(default)]
    pub state: NamespaceState,
    /// A description for humans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub updated_at: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_by: Option<String>,
    /// The usage of the queues that the token reaches. Absent if a database is unavailable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Present while the namespace is being deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion: Option<NamespaceDeletion>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NamespaceState {
    /// It has settings or contents.
    Active,
    /// It accepts no new tasks, and all its contents are being deleted.
    Deleting,
    /// It has neither settings nor contents. Whether it can be used is a setting of the servers
    /// (`namespaces.explicit`).
    #[default]
    Absent,
}

/// The contents of a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Usage {
    /// Tasks in all states.
    pub tasks: i64,
    /// Tasks that wait for their time or for an executor. `max_waiting` bounds them.
    pub waiting: i64,
    /// Payload bytes of these tasks. `max_payload_bytes` bounds them.
    #[serde(default)]
    pub payload_bytes: i64,
    /// Tasks at executors. `concurrency` bounds them.
    pub in_flight: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct NamespaceDeletion {
    #[schema(value_type = String, format = DateTime)]
    pub since: At,
    pub since_ms: i64,
    pub by: String,
    /// Tasks deleted so far. Absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<u64>,
    /// Remaining tasks. 0: its other contents are being deleted. Absent: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<u64>,
}

/// The settings of a namespace. Omitted limits are removed. An answer can be changed and sent back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, utoipa::ToSchema)]
pub struct PutNamespace {
    /// A description for humans.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub description: Option<String>,
    #[serde(flatten)]
    pub limits: PutLimits,
}

impl PutNamespace {
    /// The fields of an answer that are not settings.
    const NOT_SETTINGS: [&str; 6] =
        ["state", "updated_at", "updated_at_ms", "updated_by", "usage", "deletion"];

    /// Reads and checks one; every faulty field is named.
    pub fn from_json(json: &[u8]) -> Result<Self, Invalid> {
        let mut fields: Map<String, Value> = parse(json)?;
        fields.retain(|name, _| !Self::NOT_SETTINGS.contains(&name.as_str()));
        let description = match fields.remove("description") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text),
            Some(_) => return Err(FieldError::new("/description", "must be a text").into()),
        };
        let mut checks = Checks::default();
        checks.at_most_chars("/description", description.as_deref(), PAUSE_REASON_MAX_CHARS);
        checks.done()?;
        let limits = PutLimits::from_json(Value::Object(fields).to_string().as_bytes())?;
        Ok(Self { description, limits })
    }
}

/// Query parameters of a list of namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListNamespaces {
    /// Only namespaces whose names begin with this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Only namespaces in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<NamespaceState>,
    /// Items per page, 1 to 1,000. Default: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next_cursor` of the preceding page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

impl ListNamespaces {
    /// Every rule.
    pub fn check(&self) -> Result<(), Invalid> {
        let mut checks = Checks::default();
        if let Some(prefix) = self.prefix.as_deref() {
            checks.prefix("/prefix", prefix);
        }
        checks.range("/limit", self.limit, 1..=PAGE_MAX);
        checks.done()
    }
}

/// Query parameters of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DeleteNamespace {
    /// The name again, to prevent accidental deletion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(json: &str) -> Vec<String> {
        PutNamespace::from_json(json.as_bytes())
            .unwrap_err()
            .errors
            .into_iter()
            .map(|error| error.pointer)
            .collect()
    }

    #[test]
    fn what_was_read_can_be_put_back() {
        let deletion = NamespaceDeletion {
            since: At::from_ms(0),
            since_ms: 0,
            by: "ann".to_owned(),
            deleted: None,
            left: None,
        };
        let read = Namespace {
            limits: Limits {
                namespace: Some("shop".to_owned()),
                revision: 7,
                concurrency: Some(3),
                ..Limits::default()
            },
            description: Some("the shop".to_owned()),
            updated_at: Some(At::from_ms(0)),
            updated_at_ms: Some(0),
            updated_by: Some("ann".to_owned()),
            usage: Some(Usage::default()),
            deletion: Some(deletion),
            state: NamespaceState::Active,
        };
        let json = serde_json::to_string(&read).unwrap();
        assert_eq!(serde_json::from_str::<Namespace>(&json).unwrap(), read);
        let put = PutNamespace::from_json(json.as_bytes()).unwrap();
        let written = serde_json::to_value(&put).unwrap();
        assert_eq!(written, serde_json::json!({"description": "the shop", "concurrency": 3}));
    }

    #[test]
    fn misspelt_and_faulty_fields_are_refused_by_name() {
        assert_eq!(faults(r#"{"descripton":"x"}"#), ["/descripton"]);
        assert_eq!(faults(r#"{"description":7}"#), ["/description"]);
        assert_eq!(faults(&format!(r#"{{"description":"{}"}}"#, "x".repeat(1_001))), ["/description"]);
        assert_eq!(faults(r#"{"max_waiting":0}"#), ["/max_waiting"]);
        assert_eq!(faults(r#"{"max_payload_bytes":0}"#), ["/max_payload_bytes"]);
    }
}
