//! The inbox: rows that a user's own transaction has written into a table of the user's own database become tasks, each
//! exactly once. Knows no database and no engine: a table is `contract::InboxTable`, and tasks go in by an [`Intake`],
//! which is the way that calls of the API take.
//!
//! # The order of steps, and what a crash between any two leaves
//!
//! 1. `hold`: one relay at a time, by a lock of the connection that does all that follows. Crash: the lock goes with the
//!    connection, and another relay takes it.
//! 2. `heads`: the lowest numbers that exist. There is no cursor: numbers are not in the order of commits, and a row that
//!    becomes visible late is found by the next look. Crash: nothing has happened.
//! 3. `offer`: the row gets the time at which it is offered first, durably, and is read. Crash: the row is offered again,
//!    and step 4 decides by its key.
//! 4. `insert`: through admission and limits, with the row's key and `on_conflict: keep`, and with the time of the read and 30 s: the
//!    store inserts nothing later than that, by its own clock, in the transaction itself. Crash, or a lost answer: the row is
//!    offered again, and the insert answers with the task that exists.
//! 5. `remove`, after the insert was answered as durable. Crash before: as after 4. Crash after: all is done.
//!
//! Two relays at once, a frozen one that wakes, and a crash between 4 and 5 all insert the same key, so there is one task.
//! The key is known for as long as the task is (`Intake::known_for_ms`). A row whose first offer is older than half of that is
//! looked up instead, and is refused if no task is found: rather named than done twice.
//!
//! # A relay that is frozen between 3 and the commit of 4
//!
//! Meanwhile another relay takes the lock, inserts the row and removes it; its task ends, and after its retention K it is forgotten.
//! What the first relay inserts when it wakes would be a second task. With S = 5 min (`FIRST_OFFER_MS`):
//! - An insert of a row that was read at t commits before t + S, or never. The store compares its own clock with t + 30 s in the
//!   transaction; from there to the commit the server undoes a transaction that is silent for 3 s. Clocks of the engine and of a
//!   database may differ by some minutes within S.
//! - A row that was offered first at f is inserted at a later offer only before f + K − S. So every insert of it commits before f + K,
//!   and no task of it is forgotten before f + K. With K ≤ S no later offer is inserted, and there is one insert at most.
//!
//! What this rests on: K is not made shorter meanwhile, no caller deletes the task, and the clock of the user's database does not go back.
//!
//! # What does not block others
//!
//! A row that is refused for good stays in the table, marked, with the reason. A row that is refused for now (a full queue,
//! a rate) stays, and with it the later rows of its queue and of its key; rows of other queues pass. When everything is
//! refused (overload, no store) the relay rests, longer each time, up to a second.
//!
//! # Order of one key
//!
//! Rows of one key are inserted by number, one call of the engine after the other. On one primary server a row that is
//! inserted after another one has committed has the higher number.

mod intake;
mod relay;
mod report;
mod row;
mod walk;

pub use intake::{Intake, RowVerdict, Trouble};
pub use relay::{PERIOD, Relay};
pub use report::{InboxReport, InboxState, LAG_BOUNDS_MS, RowNumbers};

#[cfg(test)]
mod tests;
