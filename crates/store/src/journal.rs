//! The journal of outcomes (`contract::journal`) as one append-only file an engine, beside the store and independent of it. Must
//! not know what an outcome is, and must not ask a database for anything.
//!
//! Order of steps, and what a crash between two of them leaves:
//!
//! 1. Calls that arrived meanwhile are written as consecutive frames. Crash: a torn end, which the next start cuts
//!    off; no caller was answered that its record is stored. The complete frames of it are kept.
//! 2. The file is synced once for all of them. Crash: stored, and not acknowledged; the executor reports again, and
//!    gets the same answer.
//! 3. They are acknowledged. Crash: the next start finds them.
//! 4. The engine has applied them, and says that they are done; noted in memory only. Crash: they are found and applied again,
//!    which their fences refuse.
//! 5. When nothing waits the file is cut to its header; while something does, and the file has become twice as large as its
//!    bound, what waits is written into a new file that takes its place. Crash: as 4; the new file counts when it has the name.
//!
//! A frame that is damaged in the middle of the file loses its own content only: the next complete frame is found by
//! its mark. The damaged file is kept beside the journal (`outcomes-N.damaged-M`), which is rewritten without the
//! damage. Crash between the two: both names are of one file, and the next start does the same again.
//!
//! A disk that is full, or that fails, refuses at 1 or 2: what was written is cut off, and nothing is acknowledged.

mod directory;
mod file;
mod frame;
mod index;
mod medium;
mod place;
mod scan;
#[cfg(test)]
mod tests;

pub use file::FileJournal;
pub use frame::Owner;
pub use place::{JournalFindings, JournalOptions};
