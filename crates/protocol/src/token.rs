//! The lease token: `<fence>-<lease_ms>`, followed by an `h` if the executor holds a slot for it, and, for a
//! workflow's task, by the number of the workflow. Opaque to handlers; made by the server, and by workers
//! that get tasks from the bus. The fence proves the lease; the length is included so that a heartbeat
//! extends the lease by the requested time, without a read.

use crate::limits::{LEASE_MS_MAX, LEASE_MS_MIN};
use std::{collections::BTreeMap, fmt, str::FromStr};

/// The label that every task of a workflow has.
pub const WORKFLOW_LABEL: &str = "workflow";
/// The node of the workflow.
pub const WORKFLOW_NODE_LABEL: &str = "workflow_node";
/// Separates the number of the workflow, at the end of a token.
const WORKFLOW: &str = "-w";
/// Marks a lease with a slot. It follows the length of the lease.
const HELD: char = 'h';

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub fence: i64,
    /// The time by which a heartbeat extends the lease.
    pub lease_ms: i64,
    /// The executor has a bound: the server that accepts its outcome frees its slot.
    pub is_held: bool,
    /// The server that accepts its outcome notifies the workflow.
    pub is_of_workflow: bool,
    /// The number in the workflow's reference, if it is known.
    pub workflow: Option<i64>,
}

#[derive(Debug, thiserror::Error)]
#[error("not a lease token")]
pub struct NotAToken;

impl Token {
    /// Creates the token of a task with these labels.
    #[must_use]
    pub fn of(fence: i64, lease_ms: i64, labels: &BTreeMap<String, String>) -> Self {
        let label = labels.get(WORKFLOW_LABEL);
        let workflow = label.and_then(|label| number(label));
        Self { fence, lease_ms, is_held: false, is_of_workflow: label.is_some(), workflow }
    }
}

/// The number of a reference such as `w12`.
fn number(reference: &str) -> Option<i64> {
    let number = reference.strip_prefix('w')?.parse().ok().filter(|number| *number > 0)?;
    // One spelling only.
    (format!("w{number}") == reference).then_some(number)
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.fence, self.lease_ms)?;
        if self.is_held {
            write!(f, "{HELD}")?;
        }
        match self.workflow {
            Some(number) if self.is_of_workflow => write!(f, "{WORKFLOW}{number}"),
            _ if self.is_of_workflow => f.write_str(WORKFLOW),
            _ => Ok(()),
        }
    }
}

impl FromStr for Token {
    type Err = NotAToken;
    fn from_str(text: &str) -> Result<Self, NotAToken> {
        let (plain, is_of_workflow, workflow) = match text.split_once(WORKFLOW) {
            Some((plain, "")) => (plain, true, None),
            Some((plain, number)) => {
                let number = number.parse().ok().filter(|number| *number > 0_i64);
                (plain, true, Some(number.ok_or(NotAToken)?))
            }
            None => (text, false, None),
        };
        let (fence, lease_ms) = plain.split_once('-').ok_or(NotAToken)?;
        let (lease_ms, is_held) = lease_ms.strip_suffix(HELD).map_or((lease_ms, false), |rest| (rest, true));
        let fence: i64 = fence.parse().map_err(|_| NotAToken)?;
        let lease_ms: u64 = lease_ms.parse().map_err(|_| NotAToken)?;
        if !(LEASE_MS_MIN..=LEASE_MS_MAX).contains(&lease_ms) {
            return Err(NotAToken);
        }
        let lease_ms = i64::try_from(lease_ms).map_err(|_| NotAToken)?;
        let token = Self { fence, lease_ms, is_held, is_of_workflow, workflow };
        // One spelling only: no plus signs, no leading zeros.
        if token.to_string() == text { Ok(token) } else { Err(NotAToken) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_its_text_form() {
        let token =
            Token { fence: 12, lease_ms: 30_000, is_held: false, is_of_workflow: false, workflow: None };
        assert_eq!(token.to_string(), "12-30000");
        assert_eq!("12-30000".parse::<Token>().unwrap(), token);
        let token = Token { is_of_workflow: true, ..token };
        assert_eq!(token.to_string(), "12-30000-w");
        assert_eq!("12-30000-w".parse::<Token>().unwrap(), token);
        let token = Token { workflow: Some(7), ..token };
        assert_eq!(token.to_string(), "12-30000-w7");
        assert_eq!("12-30000-w7".parse::<Token>().unwrap(), token);
        let token = Token { is_held: true, ..token };
        assert_eq!(token.to_string(), "12-30000h-w7");
        assert_eq!("12-30000h-w7".parse::<Token>().unwrap(), token);
        assert!("12-30000h".parse::<Token>().unwrap().is_held);
    }

    #[test]
    fn it_is_of_the_workflow_that_the_labels_name() {
        let of = |value: &str| Token::of(1, 30_000, &[(WORKFLOW_LABEL.to_owned(), value.to_owned())].into());
        assert_eq!(of("w12").to_string(), "1-30000-w12");
        for odd in ["", "12", "w0", "w-1", "w01", "w12 ", "winter"] {
            assert_eq!(of(odd).to_string(), "1-30000-w", "{odd:?}: a caller's own label");
        }
        assert_eq!(Token::of(1, 30_000, &BTreeMap::new()).to_string(), "1-30000");
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
            "1-30000hh",
            "1-30000-h",
            "1-h30000",
            "1-h",
            "1-30000-w07",
            "1-30000-w+7",
            "1-30000-w-7",
            "1-30000-w7-w",
        ] {
            assert!(text.parse::<Token>().is_err(), "{text}");
        }
    }
}
