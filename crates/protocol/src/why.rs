//! Why a task has not run: the answer to every queue user's final question.

use serde::{Deserialize, Serialize};

use crate::{At, Phase, State};

/// Why a task has not run, and what happens next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Why {
    pub r#ref: String,
    pub state: State,
    pub phase: Phase,
    /// One sentence.
    #[schema(example = "It waits for its time, in 41 s.")]
    pub reason: String,
    /// The limit, the pause or the missing executor that blocks the task, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocking: Option<String>,
    /// The engine or executor that has the task now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The next step of the task.
    pub next_step: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_at: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_at_ms: Option<i64>,
    /// The workflow of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// The node of the workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_node: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explanation_reads_like_this() {
        let why = Why {
            r#ref: "t_1".into(),
            state: State::Scheduled,
            phase: Phase::Pending,
            reason: "It waits for its time.".into(),
            blocking: None,
            owner: Some("engine-1".into()),
            next_step: "fire".into(),
            expected_at: Some(At::from_ms(0)),
            expected_at_ms: Some(0),
            workflow: None,
            workflow_node: None,
        };
        let golden = concat!(
            r#"{"ref":"t_1","state":"scheduled","phase":"pending","reason":"It waits for its time.","owner":"engine-1","#,
            r#""next_step":"fire","expected_at":"1970-01-01T00:00:00.000Z","expected_at_ms":0}"#
        );
        assert_eq!(serde_json::to_string(&why).unwrap(), golden);
        assert_eq!(serde_json::from_str::<Why>(golden).unwrap(), why);
    }
}
