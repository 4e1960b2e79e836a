//! The lease token: `<fence>-<lease_ms>`. Opaque to handlers; made by the server, and by workers that are handed tasks by
//! the bus. The fence proves the lease; the length comes along so
//! that a heartbeat extends by as much as the lease was asked for, without a read.

use crate::limits::{LEASE_MS_MAX, LEASE_MS_MIN};
use std::{fmt, str::FromStr};

/// On every task of a workflow.
pub const WORKFLOW_LABEL: &str = "workflow";
/// At the end of a token.
const WORKFLOW: &str = "-w";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub fence: i64,
    /// What a heartbeat extends the lease by.
    pub lease_ms: i64,
    /// Whoever takes its outcome tells the workflow.
    pub is_of_workflow: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("not a lease token")]
pub struct NotAToken;

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.is_of_workflow { WORKFLOW } else { "" };
        write!(f, "{}-{}{mark}", self.fence, self.lease_ms)
    }
}

impl FromStr for Token {
    type Err = NotAToken;
    fn from_str(text: &str) -> Result<Self, NotAToken> {
        let (plain, is_of_workflow) = match text.strip_suffix(WORKFLOW) {
            Some(plain) => (plain, true),
            None => (text, false),
        };
        let (fence, lease_ms) = plain.split_once('-').ok_or(NotAToken)?;
        let fence: i64 = fence.parse().map_err(|_| NotAToken)?;
        let lease_ms: u64 = lease_ms.parse().map_err(|_| NotAToken)?;
        if !(LEASE_MS_MIN..=LEASE_MS_MAX).contains(&lease_ms) {
            return Err(NotAToken);
        }
        let lease_ms = i64::try_from(lease_ms).map_err(|_| NotAToken)?;
        let token = Self { fence, lease_ms, is_of_workflow };
        // One spelling only: no plus signs, no leading zeros.
        if token.to_string() == text { Ok(token) } else { Err(NotAToken) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_its_text_form() {
        let token = Token { fence: 12, lease_ms: 30_000, is_of_workflow: false };
        assert_eq!(token.to_string(), "12-30000");
        assert_eq!("12-30000".parse::<Token>().unwrap(), token);
        let token = Token { is_of_workflow: true, ..token };
        assert_eq!(token.to_string(), "12-30000-w");
        assert_eq!("12-30000-w".parse::<Token>().unwrap(), token);
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "12",
            "12-",
            "-30000",
            "a-30000",
            "12-99",
            "12-86400001",
            "+1-30000",
            "01-30000",
            "1-30000-",
            "1-30000-w-w",
        ] {
            assert!(text.parse::<Token>().is_err(), "{text}");
        }
    }
}
