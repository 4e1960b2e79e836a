//! A wall that goes up behind a change, or any other call: what a caller is notified then, who has done something and sees nothing
//! any more. Never loses an answer: what is refused did not happen, and what happens is told.

use parking_lot::Mutex;
use punctual_contract::Error;

/// How the words begin by which a back end says what it does, where that changes nothing.
const READS: [&str; 9] = ["audit the", "check", "count", "find", "list", "load", "look", "read", "scan"];
/// Beside what a caller asks for: the audit, kept answers, when tokens were used.
const BESIDE: [&str; 7] = [
    "append to the audit",
    "complete an entry of the audit",
    "trim the audit",
    "reserve a reply",
    "release a reply",
    "save a reply",
    "note tokens used",
];

/// When a wall goes up, and what it then refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rise {
    /// When so many changes have passed: reads.
    BehindChanges(usize),
    /// When so many calls of any kind have passed: everything.
    BehindCalls(usize),
}

/// Shared by all that is behind it. It is down, and lets everything pass, until it is told otherwise.
#[derive(Debug, Default)]
pub struct Wall {
    inner: Mutex<WallState>,
}

#[derive(Debug, Default)]
struct WallState {
    /// What is left of it. None: it stays down.
    rise: Option<Rise>,
    refused: usize,
}

impl Wall {
    pub fn goes_up(&self, rise: Rise) {
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
                // Counted as it begins: those that are made at once are told apart.
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
