//! A wall that goes up behind a change: what a caller is told then, who has done something and sees nothing any more. Never
//! loses an answer: what is refused did not happen, and what happens is told.

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

/// Shared by all that stands behind it. It is down, and lets everything pass, until it is told otherwise.
#[derive(Debug, Default)]
pub struct Wall {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Changes that pass before it is up. None: it stays down.
    changes_left: Option<usize>,
    /// Changes are refused, too.
    is_whole: bool,
    refused: usize,
}

impl Wall {
    /// Goes up when so many changes have passed: then no read passes, and no change, where it `is_whole`.
    pub fn up_after(&self, changes: usize, is_whole: bool) {
        *self.inner.lock() = Inner { changes_left: Some(changes), is_whole, refused: 0 };
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
        let is_read = READS.iter().any(|it| doing.starts_with(it));
        {
            let mut inner = self.inner.lock();
            if inner.changes_left == Some(0) && (is_read || inner.is_whole) {
                inner.refused += 1;
                return Err(Error::did_not_happen(doing, "it stands behind a wall"));
            }
        }
        let answer = call.await;
        if !is_read && answer.is_ok() {
            let mut inner = self.inner.lock();
            inner.changes_left = inner.changes_left.map(|left| left.saturating_sub(1));
        }
        answer
    }
}
