//! Query parameters of calls that wait for the end of a task.

use serde::{Deserialize, Serialize};

/// Query parameters of calls that can wait until a task has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WaitForEnd {
    /// The maximum time in milliseconds to wait until the task has ended, up to 60,000. The answer is the task as it is
    /// then. Default: 0.
    #[serde(default)]
    #[param(maximum = 60000)]
    pub wait_ms: u64,
}
