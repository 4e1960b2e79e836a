//! A wall that rises after a change, or after any other call. It shows the answer to a caller whose change took
//! effect, but whose later reads fail. Never loses an answer: a refused call did not happen, and a call that happens
//! is answered.

use parking_lot::Mutex;
use punctual_contract::Error;

/// The beginnings of operation names that change nothing.
const READS: [&str; 9] = ["audit the", "check", "count", "find", "list", "load", "look", "read", "scan"];
/// Operations beside the caller's request: the audit, stored answers, uses of tokens.
const BESIDE: [&str; 7] = [
    "append to the audit",
    "complete an entry of the audit",
    "trim the audit",
    "reserve a reply",
    "release a reply",
    "save a reply",
    "note tokens used",
];

/// The condition for a wall to rise, and the calls that it refuses then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rise {
    /// The wall rises after so many changes, and refuses reads.
    BehindChanges(usize),
    /// The wall rises after so many calls of any kind, and refuses everything.
    BehindCalls(usize),
}

/// Shared by all calls behind it. It is down, and lets everything pass, until a test raises it.
#[derive(Debug, Default)]
pub struct Wall {
    inner: Mutex<WallState>,
}

#[derive(Debug, Default)]
struct WallState {
    /// The calls that may still pass. `None` if the wall stays down.
    rise: Option<Rise>,
    refused: usize,
}

impl Wall {
    pub fn raise(&self, rise: Rise) {
        *self.inner.lock() = WallState { rise: Some(rise), refused: 0 };
    }

    /// Everything passes. How many calls were refused.
    pub fn down(&self) -> usize {
        std::mem::take(&mut *self.inner.lock()).refused
    }

    pub(super) async fn pass<T>(
        &self,
        doing: &'static str,
        call: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        if BESIDE.contains(&doing) {
            return call.await;
        }
        let is_read = READS.iter().any(|text| doing.starts_with(text));
        {
            let mut inner = self.inner.lock();
            let is_refused = match &mut inner.rise {
                Some(Rise::BehindChanges(0)) => is_read,
                Some(Rise::BehindCalls(0)) => true,
                // Counted at its beginning, so that concurrent calls are distinguished.
                Some(Rise::BehindCalls(left)) => {
                    *left -= 1;
                    false
                }
                Some(Rise::BehindChanges(_)) | None => false,
            };
            if is_refused {
                inner.refused += 1;
                return Err(Error::did_not_happen(doing, "it stands behind a wall"));
            }
        }
        let answer = call.await;
        if !is_read
            && answer.is_ok()
            && let Some(Rise::BehindChanges(left)) = &mut self.inner.lock().rise
        {
            *left = left.saturating_sub(1);
        }
        answer
    }
}
