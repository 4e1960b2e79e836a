//! Ids of stream entries, and their 64 bits in the contract. Never rounds: an id that does not fit is an
//! error.

use crate::error::Error;
use std::{fmt, str::FromStr};

/// Bits of a delivery id, from the highest: milliseconds since the epoch below, sequence, stream.
const SEQ_BITS: u32 = 20;
const STREAM_BITS: u32 = 4;
const MS_BITS: u32 = u64::BITS - SEQ_BITS - STREAM_BITS;
/// 2020-01-01T00:00:00Z; 40 bits of milliseconds last until 2054.
const EPOCH_MS: u64 = 1_577_836_800_000;

pub(crate) const STREAMS_MAX: u8 = 1 << STREAM_BITS;

/// The id that Redis assigns: milliseconds of its clock, and a number within them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EntryId {
    pub(crate) ms: u64,
    pub(crate) seq: u64,
}

impl EntryId {
    pub(crate) fn pack(self, stream: u8) -> Result<u64, Error> {
        let fits = |number: &u64| *number < 1 << MS_BITS && self.seq < 1 << SEQ_BITS && stream < STREAMS_MAX;
        let ms =
            self.ms.checked_sub(EPOCH_MS).filter(fits).ok_or(Error::Id { ms: self.ms, seq: self.seq })?;
        Ok((((ms << SEQ_BITS) | self.seq) << STREAM_BITS) | u64::from(stream))
    }

    /// The stream's number, and the id in it.
    pub(crate) fn unpack(packed: u64) -> (u8, Self) {
        let stream = u8::try_from(packed & u64::from(STREAMS_MAX - 1)).expect("4 bits fit 8");
        let rest = packed >> STREAM_BITS;
        let (ms, seq) = ((rest >> SEQ_BITS) + EPOCH_MS, rest & ((1 << SEQ_BITS) - 1));
        (stream, Self { ms, seq })
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

impl FromStr for EntryId {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        let read = |(ms, seq): (&str, &str)| Some(Self { ms: ms.parse().ok()?, seq: seq.parse().ok()? });
        text.split_once('-').and_then(read).ok_or(Error::Reply("an entry id that is none"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAST_MS: u64 = EPOCH_MS + (1 << MS_BITS) - 1;
    const LAST_SEQ: u64 = (1 << SEQ_BITS) - 1;

    #[test]
    fn an_id_survives_packing() {
        for ms in [EPOCH_MS, 1_793_000_000_000, LAST_MS] {
            for seq in [0, 1, LAST_SEQ] {
                for stream in 0..STREAMS_MAX {
                    let id = EntryId { ms, seq };
                    assert_eq!(EntryId::unpack(id.pack(stream).unwrap()), (stream, id));
                    assert_eq!(id.to_string().parse::<EntryId>().unwrap(), id);
                }
            }
        }
    }

    #[test]
    fn an_id_that_does_not_fit_is_refused() {
        let refused = [
            (0, 0, 0),
            (EPOCH_MS - 1, 0, 0),
            (LAST_MS + 1, 0, 0),
            (EPOCH_MS, LAST_SEQ + 1, 0),
            (EPOCH_MS, 0, 16),
        ];
        for (ms, seq, stream) in refused {
            assert!(EntryId { ms, seq }.pack(stream).is_err(), "{ms}-{seq} {stream}");
        }
        for bad in ["", "1", "1-", "-1", "a-1", "1-2-3"] {
            assert!(bad.parse::<EntryId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn every_number_is_an_id() {
        for packed in [0, 1, u64::MAX] {
            let (stream, id) = EntryId::unpack(packed);
            assert_eq!(id.pack(stream).unwrap(), packed);
        }
    }
}
