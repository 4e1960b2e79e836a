//! Scans the file of a journal: its complete frames, and the number of other bytes between and after them. Must not
//! change the file.

use super::{
    frame::{self, FRAME_HEAD_LEN, Head, Mark},
    index::Frame,
    medium::Medium,
};
use std::io;

/// The number of bytes that are read at once in the search for the next frame.
const CHUNK_LEN: usize = 64 << 10;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Scanned {
    pub(super) frames: Vec<Frame>,
    /// The end of the last complete frame.
    pub(super) good_len: u64,
    pub(super) torn_bytes: u64,
    /// The number of damaged bytes before a complete frame.
    pub(super) damaged_bytes: u64,
}

/// Scans from the end of the header on.
pub(super) fn scan(medium: &dyn Medium, mark: Mark<'_>, begin: u64) -> io::Result<Scanned> {
    let (mut scanned, mut at, len) =
        (Scanned { good_len: begin, ..Scanned::default() }, begin, medium.len()?);
    while at < len {
        if let Some(head) = whole_at(medium, mark, at, len)? {
            scanned.frames.push(Frame { at, head });
            at += Frame { at, head }.len_with(mark);
            scanned.good_len = at;
            continue;
        }
        let Some(next) = next_whole(medium, mark, at + 1, len)? else { break };
        scanned.damaged_bytes += next - at;
        at = next;
    }
    scanned.torn_bytes = len.saturating_sub(scanned.good_len);
    Ok(scanned)
}

fn whole_at(medium: &dyn Medium, mark: Mark<'_>, at: u64, len: u64) -> io::Result<Option<Head>> {
    let Some(frame_len) = frame::len_said(mark, &medium.read(at, FRAME_HEAD_LEN)?) else { return Ok(None) };
    if at.saturating_add(len_of(frame_len)) > len {
        return Ok(None);
    }
    Ok(frame::read(mark, &medium.read(at, frame_len)?).map(|(head, _)| head))
}

/// The next position with a complete frame.
fn next_whole(medium: &dyn Medium, mark: Mark<'_>, mut at: u64, len: u64) -> io::Result<Option<u64>> {
    while at < len {
        let bytes = medium.read(at, CHUNK_LEN)?;
        match frame::find_mark(mark, &bytes) {
            Some(found) => {
                at += len_of(found);
                if whole_at(medium, mark, at, len)?.is_some() {
                    return Ok(Some(at));
                }
                at += 1;
            }
            // A mark may begin in this piece and end in the next.
            None if bytes.len() > mark.0.len() && !mark.0.is_empty() => {
                at += len_of(bytes.len() - mark.0.len() + 1);
            }
            None => return Ok(None),
        }
    }
    Ok(None)
}

fn len_of(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}
