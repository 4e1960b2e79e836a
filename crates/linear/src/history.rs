//! What a recorder writes down: one line a call, as JSON. The answer decides how much is known: a call without one may
//! have happened at any time after it was made, or never. A call that was refused with "nothing was done" is not
//! recorded at all. Decides nothing.

use serde::{Deserialize, Serialize};

/// One call of a client. `called` and `returned` are monotonic and order the calls. `from_us` and `until_us` are the
/// same two instants on the clock of due times; a recorder adds to `until_us` what that clock may be wrong by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedOp {
    pub task: i64,
    pub called: i64,
    /// None: no answer came.
    pub returned: Option<i64>,
    pub from_us: i64,
    /// The latest instant at which it can have happened; `i64::MAX` without an answer.
    pub until_us: i64,
    #[serde(flatten)]
    pub kind: OpKind,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum OpKind {
    Insert {
        queue: u32,
        /// The earliest instant that the caller may expect.
        due_us: i64,
        /// A task that was not handed over by then may be dead.
        deadline_us: Option<i64>,
        max_attempts: u32,
        answer: Option<InsertAnswer>,
    },
    Cancel {
        /// Also what has fired, until an executor has it.
        withdraws: bool,
        answer: Option<ChangeAnswer>,
    },
    Reschedule {
        /// None: something else is changed.
        due_us: Option<i64>,
        answer: Option<ChangeAnswer>,
    },
    Redrive {
        answer: Option<ChangeAnswer>,
    },
    /// An executor of this queue was handed the task. A recorder knows of it only by its answer.
    Fire {
        queue: u32,
        /// Of this hand-over, and of no other.
        token: i64,
        attempt: u32,
        /// The instant of firing, as late as it can have been on the clock of due times.
        fired_us: i64,
        /// The lease ends no earlier.
        lease_until_us: i64,
    },
    /// The executor extended its lease.
    Extend {
        token: i64,
        lease_until_us: i64,
        /// None: no answer. False: the lease was lost.
        held: Option<bool>,
    },
    Outcome {
        token: i64,
        end: AttemptEnd,
        answer: Option<OutcomeAnswer>,
    },
    /// What a client read.
    Read {
        state: ReadState,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InsertAnswer {
    Created,
    Replaced,
    /// The existing task is in flight or has succeeded, and is unchanged.
    Existing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeAnswer {
    Done,
    /// Nothing was changed: the task had fired or was over. Of a redrive: it was not dead.
    Refused,
    /// An executor has the task and is asked to stop.
    StopRequested,
    NotFound,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptEnd {
    Succeeded,
    /// The next attempt begins no earlier than so long after the call.
    Failed {
        retry_after_us: i64,
    },
    /// The attempt is given back.
    Snoozed {
        after_us: i64,
    },
    Rejected,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeAnswer {
    Accepted,
    Stale,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadState {
    Absent,
    Waiting,
    InHand,
    Succeeded,
    Dead,
    Cancelled,
}

/// The calls of one run, in any order, and for how many hand-overs of each task no executor can answer: calls for work
/// whose answer was lost.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    pub ops: Vec<RecordedOp>,
    /// Begin and end (None: open) of each call for work that was not answered, on the clock of due times, by queue.
    pub lost_calls: Vec<LostWork>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostWork {
    pub queue: u32,
    pub from_us: i64,
    pub until_us: i64,
}

/// A line of a file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum HistoryLine {
    Op(RecordedOp),
    Lost { lost_work: LostWork },
}

impl Recording {
    /// As JSON lines.
    #[must_use]
    pub fn to_lines(&self) -> String {
        let ops = self.ops.iter().map(serde_json::to_string);
        let lost = self.lost_calls.iter().map(|lost| {
            let lost_work = lost.clone();
            serde_json::to_string(&HistoryLine::Lost { lost_work })
        });
        // Numbers and names only: it cannot fail.
        ops.chain(lost).filter_map(Result::ok).map(|line| line + "\n").collect()
    }

    /// # Errors
    /// A line that is none of a recorder.
    pub fn from_lines(text: &str) -> Result<Self, serde_json::Error> {
        let mut recording = Self::default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            match serde_json::from_str(line)? {
                HistoryLine::Op(op) => recording.ops.push(op),
                HistoryLine::Lost { lost_work } => recording.lost_calls.push(lost_work),
            }
        }
        Ok(recording)
    }
}
