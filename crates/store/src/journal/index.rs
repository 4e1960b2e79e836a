//! The waiting records of a journal, and their positions in the file. Pure: the bytes are elsewhere. Must not report
//! a record as waiting before it is durable: its owner adds it afterwards.

use super::frame::{Head, Mark};
use hashbrown::HashMap;
use punctual_contract::journal::AttemptKey;
use std::collections::BTreeMap;

/// A frame in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) at: u64,
    pub(super) head: Head,
}

impl Frame {
    pub(super) fn len(&self) -> u64 {
        u64::try_from(self.head.frame_len()).unwrap_or(u64::MAX)
    }

    /// The length of the frame in a file whose frames begin with this mark.
    pub(super) fn len_with(&self, mark: Mark<'_>) -> u64 {
        u64::try_from(self.head.frame_len_with(mark)).unwrap_or(u64::MAX)
    }
}

#[derive(Debug, Default)]
pub(super) struct Index {
    waiting: BTreeMap<u64, Frame>,
    numbers: HashMap<AttemptKey, u64>,
    last: u64,
    bytes: u64,
}

impl Index {
    /// It is durable. Of an attempt that has a record already the first one counts.
    pub(super) fn add(&mut self, frame: Frame) {
        if self.numbers.contains_key(&frame.head.key) {
            return;
        }
        self.last += 1;
        self.numbers.insert(frame.head.key, self.last);
        self.bytes += frame.len();
        self.waiting.insert(self.last, frame);
    }

    pub(super) fn digest_of(&self, key: AttemptKey) -> Option<u64> {
        self.waiting.get(self.numbers.get(&key)?).map(|frame| frame.head.digest)
    }

    pub(super) fn done(&mut self, numbers: &[u64]) {
        for number in numbers {
            if let Some(frame) = self.waiting.remove(number) {
                self.numbers.remove(&frame.head.key);
                self.bytes -= frame.len();
            }
        }
    }

    /// The oldest after a number, one at least, and no more than so many bytes.
    pub(super) fn page(&self, after: u64, bytes: usize) -> Vec<(u64, Frame)> {
        let (mut page, mut sum) = (Vec::new(), 0);
        for (number, frame) in self.waiting.range(after.saturating_add(1)..) {
            sum += frame.head.frame_len();
            if sum > bytes && !page.is_empty() {
                break;
            }
            page.push((*number, *frame));
        }
        page
    }

    /// The frames stand one after the other now, from this place on.
    pub(super) fn moved(&mut self, mut at: u64) {
        for frame in self.waiting.values_mut() {
            frame.at = at;
            at += frame.len();
        }
    }

    pub(super) fn frames(&self) -> impl Iterator<Item = &Frame> {
        self.waiting.values()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn len(&self) -> u64 {
        u64::try_from(self.waiting.len()).unwrap_or(u64::MAX)
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }
}
