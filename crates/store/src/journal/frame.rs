//! The bytes of a journal: a header with its owner, then frames with a mark and a checksum each. Pure: opens no file.
//! Must read whatever a crash has left, and accept no incomplete frame.
//!
//! Header: 8 bytes of magic, 16 of the owner, 4 of checksum. Frame: 8 bytes of the mark, 4 of length of the body, 4 of checksum over the
//! mark, the length and all that follows, 8 of task, 8 of fence, 8 of digest, the body. All numbers little-endian. A durable format.
//!
//! The mark is where a reader finds the next frame behind one that is damaged. It is made of the owner, which comes from the cluster's
//! secret: an executor that knew it could write a frame into a result, to be found there. Files of the first form (magic 1) have frames
//! without marks. They are read, and written anew with marks when they are opened; behind damage nothing can be found in them.

use punctual_contract::journal::AttemptKey;

const MAGIC: [u8; 8] = *b"PNCTJNL2";
const FIRST_MAGIC: [u8; 8] = *b"PNCTJNL1";
pub(super) const HEADER_LEN: usize = 28;
const MARK_LEN: usize = 8;
/// The length of the fields between the mark and the body.
const HEAD_LEN: usize = 32;
/// The length of everything before the body.
pub(super) const FRAME_HEAD_LEN: usize = MARK_LEN + HEAD_LEN;
/// The maximum length of a body: a larger value is no length.
pub(super) const BODY_LEN_MAX: usize = 64 << 20;

/// The bytes with which frames begin. Empty for a file of the first form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark<'m>(pub(super) &'m [u8]);

/// The mark of the files of one owner.
pub(super) fn mark_of(owner: Owner) -> [u8; MARK_LEN] {
    let mut mark = [0; MARK_LEN];
    // Not as in the header: what is stored there is no frame.
    mark.iter_mut().zip(owner).for_each(|(byte, of_owner)| *byte = !of_owner);
    mark
}

/// The owner of a journal: records of one store are never applied to another.
pub type Owner = [u8; 16];

/// The fields of a frame before its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) key: AttemptKey,
    pub(super) digest: u64,
    pub(super) body_len: usize,
}

impl Head {
    pub(super) const fn frame_len(&self) -> usize {
        FRAME_HEAD_LEN + self.body_len
    }

    /// The length of the frame in a file whose frames begin with this mark.
    pub(super) const fn frame_len_with(&self, mark: Mark<'_>) -> usize {
        mark.0.len() + HEAD_LEN + self.body_len
    }
}

/// The content of the beginning of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Header {
    /// The file is shorter than a header: a crash while it was created, before anything was stored.
    Unmade,
    Of(Owner),
    /// The file has the first form: its frames have no marks.
    First(Owner),
    /// Something else.
    Foreign,
}

pub(super) fn header(owner: Owner) -> Vec<u8> {
    header_with(MAGIC, owner)
}

fn header_with(magic: [u8; 8], owner: Owner) -> Vec<u8> {
    let mut bytes = [&magic[..], &owner].concat();
    let checksum = crc32fast::hash(&bytes);
    bytes.extend(checksum.to_le_bytes());
    bytes
}

pub(super) fn read_header(bytes: &[u8]) -> Header {
    let Some((said, _)) = bytes.split_first_chunk::<HEADER_LEN>() else { return Header::Unmade };
    let mut owner = Owner::default();
    owner.copy_from_slice(said.get(8..24).unwrap_or(&[0; 16]));
    if *said == *header(owner) {
        Header::Of(owner)
    } else if *said == *header_with(FIRST_MAGIC, owner) {
        Header::First(owner)
    } else {
        Header::Foreign
    }
}

/// Appends a frame. `None`: the body is too long for one.
pub(super) fn write(
    to: &mut Vec<u8>,
    mark: Mark<'_>,
    key: AttemptKey,
    digest: u64,
    body: &[u8],
) -> Option<Head> {
    let body_len = u32::try_from(body.len()).ok().filter(|_| body.len() <= BODY_LEN_MAX)?;
    to.extend_from_slice(mark.0);
    let begin = to.len();
    to.extend(body_len.to_le_bytes());
    to.extend([0; 4]);
    to.extend(key.task.to_le_bytes());
    to.extend(key.fence.to_le_bytes());
    to.extend(digest.to_le_bytes());
    to.extend_from_slice(body);
    let checksum = checksum(mark, to.get(begin..)?)?;
    to.get_mut(begin + 4..begin + 8)?.copy_from_slice(&checksum.to_le_bytes());
    Some(Head { key, digest, body_len: body.len() })
}

/// The checksum of the mark, the length and all bytes after the checksum. `frame` has no mark.
fn checksum(mark: Mark<'_>, frame: &[u8]) -> Option<u32> {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(mark.0);
    hasher.update(frame.get(..4)?);
    hasher.update(frame.get(8..)?);
    Some(hasher.finalize())
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// The length that the first bytes of a frame declare. `None` if they are not a frame.
pub(super) fn len_said(mark: Mark<'_>, head: &[u8]) -> Option<usize> {
    let head = head.strip_prefix(mark.0)?;
    let body_len = usize::try_from(u32::from_le_bytes(number(head, 0)?)).ok()?;
    (body_len <= BODY_LEN_MAX).then_some(mark.0.len() + HEAD_LEN + body_len)
}

/// The complete frame at the beginning of these bytes, and its body. `None` if there is none, or if it is torn or
/// damaged.
pub(super) fn read<'b>(mark: Mark<'_>, bytes: &'b [u8]) -> Option<(Head, &'b [u8])> {
    let frame = bytes.get(mark.0.len()..len_said(mark, bytes)?)?;
    if checksum(mark, frame)? != u32::from_le_bytes(number(frame, 4)?) {
        return None;
    }
    let (task, fence) = (i64::from_le_bytes(number(frame, 8)?), i64::from_le_bytes(number(frame, 16)?));
    let digest = u64::from_le_bytes(number(frame, 24)?);
    let body = frame.get(HEAD_LEN..)?;
    Some((Head { key: AttemptKey { task, fence }, digest, body_len: body.len() }, body))
}

/// The position where the next frame may begin.
pub(super) fn find_mark(mark: Mark<'_>, bytes: &[u8]) -> Option<usize> {
    if mark.0.is_empty() { None } else { bytes.windows(mark.0.len()).position(|window| window == mark.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: AttemptKey = AttemptKey { task: -7, fence: 1 << 40 };
    const MARK: Mark<'_> = Mark(b"markmark");

    #[test]
    fn the_bytes_are_pinned_because_files_were_written_so() {
        let hex = |mark| {
            let mut bytes = Vec::new();
            write(&mut bytes, mark, KEY, 9, b"ab").unwrap();
            bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        let behind = "f9ffffffffffffff000000000001000009000000000000006162";
        assert_eq!(hex(Mark(&[])), format!("02000000{}{behind}", &hex(Mark(&[]))[8..16]));
        let marked = hex(MARK);
        assert_eq!((&marked[..24], &marked[32..]), ("6d61726b6d61726b02000000", behind));
        assert_eq!(mark_of([0xf0; 16]), [0x0f; 8]);
        assert_eq!(header_with(FIRST_MAGIC, [3; 16])[..9], *b"PNCTJNL1\x03");
        assert_eq!(read_header(&header_with(FIRST_MAGIC, [3; 16])), Header::First([3; 16]));
        assert_eq!(read_header(&header([3; 16])), Header::Of([3; 16]));
        assert_eq!(header([3; 16]).len(), HEADER_LEN);
    }

    #[test]
    fn a_header_that_was_cut_short_is_unmade_and_one_with_another_bit_is_foreign() {
        let whole = header([3; 16]);
        for len in 0..HEADER_LEN {
            assert_eq!(read_header(&whole[..len]), Header::Unmade);
        }
        for bit in 0..HEADER_LEN * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read_header(&damaged), Header::Foreign, "bit {bit}");
        }
    }

    #[test]
    fn a_body_that_is_too_long_is_no_frame() {
        assert_eq!(write(&mut Vec::new(), MARK, KEY, 0, &vec![0; BODY_LEN_MAX + 1]), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_nothing_that_is_cut_or_damaged(
            body in proptest::collection::vec(any::<u8>(), 0..300),
            task in any::<i64>(), fence in any::<i64>(), digest in any::<u64>(), seed in any::<usize>(),
        ) {
            let (key, mut bytes) = (AttemptKey { task, fence }, Vec::new());
            let head = write(&mut bytes, MARK, key, digest, &body).unwrap();
            prop_assert_eq!(bytes.len(), head.frame_len());
            prop_assert_eq!(read(MARK, &bytes), Some((head, &body[..])));
            prop_assert_eq!(read(MARK, &bytes[..seed % bytes.len()]), None);
            prop_assert_eq!(read(Mark(b"another."), &bytes), None);
            let bit = seed % (bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(read(MARK, &bytes).is_none());
        }
    }
}
