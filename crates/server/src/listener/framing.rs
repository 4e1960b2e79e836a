//! Follows the requests of one connection of HTTP/1 along with the HTTP library, from the first to the last, for what the library
//! takes and two readers could take differently: a body with two lengths, lines that end without a carriage return. A proxy and
//! this server would then not agree where a request ends. Such a line of a head is spoilt before the library sees it, so that
//! the library itself refuses it, in its turn; one between the chunks of a body is held back, and the reading ends there with an
//! error. Either way nothing that comes after it is ever read. Must never touch a byte of a body.

/// The length of the longest searched name, and one more.
const NAME_MAX_BYTES: usize = "transfer-encoding:".len();
/// The maximum length of a header that determines where a body ends.
const LINE_MAX_BYTES: usize = 256;
/// The first bytes of an HTTP/2 connection.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r";

const TWO_LENGTHS: &str =
    "its head has Content-Length and Transfer-Encoding, and each says where the body ends";
const UNCLEAR_LENGTH: &str = "its Content-Length or Transfer-Encoding is not one that says where the body ends: one whole number, or chunked";
const BARE_LINE_FEED: &str =
    "a line of it ends with a line feed alone: in HTTP/1.1 it ends with a carriage return and a line feed";
const OTHER_CODING: &str =
    "its Transfer-Encoding is not `chunked` alone: a body is taken as it is, and no other coding is undone";
const FOLDED: &str = "a header continues on a second line, which HTTP/1.1 forbids";
const BROKEN_CHUNK: &str = "a chunk of its body does not have the length that it says";

/// The part of the request to which the next byte belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FramePosition {
    /// A request that has not begun, but for blank lines.
    #[default]
    Before,
    Headers,
    Body {
        left: u64,
    },
    ChunkSize,
    Chunk {
        left: u64,
    },
    ChunkEnd,
    Trailers,
    /// HTTP/2, or what the library refuses.
    Unwatched,
}

/// The head that is being received, as far as it has arrived.
#[derive(Debug, Default)]
struct Head {
    length: Option<u64>,
    is_chunked: bool,
}

#[derive(Debug, Default)]
pub(super) struct Framing {
    place: FramePosition,
    head: Head,
    /// The beginning of the present line.
    line: Vec<u8>,
    /// The number of bytes of the present line that have arrived.
    line_bytes: usize,
    ends_with_return: bool,
    has_request: bool,
    fault: Option<FramingError>,
}

#[derive(Clone, Copy, Debug)]
struct FramingError {
    words: &'static str,
    is_in_head: bool,
}

impl Framing {
    /// Reads new bytes. Returns how many of them the library may read: a line of a head that must not be understood
    /// is spoilt, and is the last; the end of such a line between chunks is withheld, since the library accepts any
    /// byte but a line feed there.
    pub(super) fn read(&mut self, bytes: &mut [u8]) -> usize {
        if self.fault.is_some() {
            return 0;
        }
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            match self.place {
                FramePosition::Unwatched => break,
                FramePosition::Body { left } => {
                    at += self
                        .pass(left, rest.len(), FramePosition::Before, |left| FramePosition::Body { left })
                }
                FramePosition::Chunk { left } => {
                    at += self
                        .pass(left, rest.len(), FramePosition::ChunkEnd, |left| FramePosition::Chunk { left })
                }
                _ => {
                    let end = rest.iter().position(|byte| *byte == b'\n');
                    self.keep(rest.get(..end.unwrap_or(rest.len())).unwrap_or_default());
                    let Some(end) = end else { break };
                    at += end;
                    let is_in_head = matches!(self.place, FramePosition::Before | FramePosition::Headers);
                    if let Err(words) = self.end_line() {
                        self.fault = Some(FramingError { words, is_in_head });
                        bytes.get_mut(at).into_iter().for_each(|byte| *byte = 0);
                        return at + usize::from(is_in_head);
                    }
                    at += 1;
                }
            }
        }
        bytes.len()
    }

    /// Why no more of the connection is read, or `None` if it is well-formed, or the library knows itself.
    pub(super) fn fault(&self) -> Option<&'static str> {
        self.fault.map(|fault| fault.words)
    }

    /// True if the fault is in a head, which the library checks when a blank line ends it.
    pub(super) fn is_in_head(&self) -> bool {
        self.fault.is_some_and(|fault| fault.is_in_head)
    }

    /// Bytes of a body, of which `left` are to come.
    fn pass(
        &mut self,
        left: u64,
        come: usize,
        then: FramePosition,
        still: impl Fn(u64) -> FramePosition,
    ) -> usize {
        let taken = usize::try_from(left).map_or(come, |left| left.min(come));
        let left = left.saturating_sub(u64::try_from(taken).unwrap_or(u64::MAX));
        self.place = if left == 0 { then } else { still(left) };
        taken
    }

    fn keep(&mut self, piece: &[u8]) {
        let Some(last) = piece.last() else { return };
        self.ends_with_return = *last == b'\r';
        self.line_bytes = self.line_bytes.saturating_add(piece.len());
        let (first, more) = piece.split_at(piece.len().min(NAME_MAX_BYTES.saturating_sub(self.line.len())));
        self.line.extend_from_slice(first);
        if value(&self.line, b"content-length:")
            .or_else(|| value(&self.line, b"transfer-encoding:"))
            .is_some()
        {
            self.line.extend(more.iter().take(LINE_MAX_BYTES.saturating_sub(self.line.len())));
        }
    }

    fn end_line(&mut self) -> Result<(), &'static str> {
        let (is_whole, bytes) = (self.ends_with_return, std::mem::take(&mut self.line_bytes));
        self.ends_with_return = false;
        let line = std::mem::take(&mut self.line);
        let is_empty = bytes == 1;
        if !is_whole {
            return Err(BARE_LINE_FEED);
        }
        let begins = self.place == FramePosition::Before && !is_empty;
        let is_first = begins && !std::mem::replace(&mut self.has_request, true);
        self.place = match self.place {
            FramePosition::Before if is_empty => FramePosition::Before,
            FramePosition::Before if is_first && line.starts_with(HTTP2) => FramePosition::Unwatched,
            FramePosition::Before => FramePosition::Headers,
            FramePosition::Headers if is_empty => self.end_head(),
            FramePosition::Headers => {
                self.header(&line, bytes)?;
                FramePosition::Headers
            }
            FramePosition::ChunkSize => match size(&line)? {
                0 => FramePosition::Trailers,
                left => FramePosition::Chunk { left },
            },
            FramePosition::ChunkEnd if is_empty => FramePosition::ChunkSize,
            FramePosition::ChunkEnd => return Err(BROKEN_CHUNK),
            FramePosition::Trailers if is_empty => FramePosition::Before,
            other => other,
        };
        // Its room serves the next line.
        self.line = line;
        self.line.clear();
        Ok(())
    }

    fn header(&mut self, line: &[u8], bytes: usize) -> Result<(), &'static str> {
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            return Err(FOLDED);
        }
        let (length, coding) = (value(line, b"content-length:"), value(line, b"transfer-encoding:"));
        if length.or(coding).is_some() && bytes > line.len() {
            return Err(UNCLEAR_LENGTH);
        }
        if let Some(length) = length {
            let length = whole_number(length.trim_ascii()).ok_or(UNCLEAR_LENGTH)?;
            if self.head.length.is_some_and(|other| other != length) {
                return Err(UNCLEAR_LENGTH);
            }
            self.head.length = Some(length);
        }
        if let Some(coding) = coding {
            let is_chunked = coding.trim_ascii().eq_ignore_ascii_case(b"chunked");
            if !is_chunked || self.head.is_chunked {
                return Err(OTHER_CODING);
            }
            self.head.is_chunked = true;
        }
        if self.head.is_chunked && self.head.length.is_some() { Err(TWO_LENGTHS) } else { Ok(()) }
    }

    fn end_head(&mut self) -> FramePosition {
        match std::mem::take(&mut self.head) {
            Head { is_chunked: true, .. } => FramePosition::ChunkSize,
            Head { length: Some(left @ 1..), .. } => FramePosition::Body { left },
            _ => FramePosition::Before,
        }
    }
}

fn value<'l>(line: &'l [u8], name: &[u8]) -> Option<&'l [u8]> {
    let (is, value) = line.split_at_checked(name.len())?;
    is.eq_ignore_ascii_case(name).then_some(value)
}

fn whole_number(digits: &[u8]) -> Option<u64> {
    let is_plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    str::from_utf8(digits).ok().filter(|_| is_plain)?.parse().ok()
}

/// The size of a chunk; the rest of its line does not affect its length.
fn size(line: &[u8]) -> Result<u64, &'static str> {
    let end = line.iter().position(|byte| !byte.is_ascii_hexdigit()).ok_or(BROKEN_CHUNK)?;
    let digits =
        line.get(..end).and_then(|digits| str::from_utf8(digits).ok()).filter(|digits| !digits.is_empty());
    digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).ok_or(BROKEN_CHUNK)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    /// A request whose body contains requests that would be refused.
    const SIZED: &str =
        "POST / HTTP/1.1\r\nContent-Length:  30 \r\nhost: a\r\n\r\nGET / HTTP/1.1\ncontent-length:";
    const CHUNKED: &str = "\r\nPOST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n1A;x=\"y\"\r\nG / HTTP/1.1\n\ncontent-leng\r\n3\r\na\nb\r\n0\r\nx-sum: 1\r\n\r\n";
    const TWICE: &str =
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nhost: a\r\nContent-LENGTH: 3\r\n\r\n";

    /// Returns the bytes for the library, and the reason for which it will refuse them.
    fn read(pieces: &[&[u8]]) -> (Vec<u8>, Option<&'static str>) {
        let (mut framing, mut given) = (Framing::default(), Vec::new());
        for piece in pieces {
            let mut piece = piece.to_vec();
            let seen = framing.read(&mut piece);
            given.extend(&piece[..seen]);
        }
        (given, framing.fault())
    }

    fn fault(text: &str) -> Option<&'static str> {
        read(&[text.as_bytes()]).1
    }

    #[test]
    fn requests_that_are_well_formed_are_not_touched_however_they_come() {
        let all = [PLAIN, SIZED, CHUNKED, PLAIN, CHUNKED, SIZED, "\r\n\r\n", PLAIN].concat();
        let all = all.as_bytes();
        for at in 0..all.len() {
            let (first, second) = all.split_at(at);
            assert_eq!(read(&[first, second]), (all.to_vec(), None), "{at}");
        }
        let bytes: Vec<&[u8]> = all.chunks(1).collect();
        assert_eq!(read(&bytes), (all.to_vec(), None));
    }

    #[test]
    fn two_lengths_are_found_at_any_place_of_the_stream_in_either_order() {
        let other = "POST / HTTP/1.1\r\ncontent-length:3\r\ntransfer-encoding:chunked\r\n\r\n";
        for twice in [TWICE, other] {
            for before in ["", PLAIN, SIZED, CHUNKED] {
                let text = format!("{before}{twice}");
                let (given, found) = read(&[text.as_bytes()]);
                assert_eq!(found, Some(TWO_LENGTHS), "{text}");
                assert!(given.starts_with(before.as_bytes()), "what came before is whole");
                assert!(given.contains(&0), "and this one is none any more");
                for at in 1..text.len() {
                    let (first, second) = text.as_bytes().split_at(at);
                    assert_eq!(read(&[first, second]), (given.clone(), Some(TWO_LENGTHS)), "{at}");
                }
            }
        }
    }

    #[test]
    fn a_line_feed_alone_ends_no_line() {
        for text in [
            "GET / HTTP/1.1\nhost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: a\n\r\n",
            "GET / HTTP/1.1\r\nhost: a\r\n\n",
            "\nGET / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\nx: y\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1;a\nb\r\na\r\n0\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0;\n\r\n\r\n",
        ] {
            for before in ["", PLAIN, SIZED, CHUNKED] {
                assert_eq!(fault(&format!("{before}{text}")), Some(BARE_LINE_FEED), "{before}{text}");
            }
        }
    }

    #[test]
    fn nothing_behind_a_fault_is_seen() {
        let chunked = "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n";
        for (text, seen) in [
            (format!("{chunked}1;a\nb\r\na\r\n0\r\n\r\n"), format!("{chunked}1;a")),
            (format!("{chunked}1\r\na\r\n0;\n\r\n\r\n"), format!("{chunked}1\r\na\r\n0;")),
            (format!("{chunked}1\r\na\r\n0\r\nx: y\n\r\n"), format!("{chunked}1\r\na\r\n0\r\nx: y")),
            ("GET / HTTP/1.1\nhost: a\r\n\r\n".to_owned(), "GET / HTTP/1.1\0".to_owned()),
        ] {
            let all = format!("{text}{TWICE}{PLAIN}");
            for at in 0..=all.len() {
                let (first, second) = all.as_bytes().split_at(at);
                let (given, fault) = read(&[first, second]);
                assert_eq!(
                    (String::from_utf8_lossy(&given), fault),
                    (seen.clone().into(), Some(BARE_LINE_FEED)),
                    "{text} {at}"
                );
            }
        }
    }

    #[test]
    fn a_length_is_one_whole_number_or_chunked() {
        let head = |headers: &str| fault(&format!("POST / HTTP/1.1\r\n{headers}\r\n\r\n"));
        for bad in [
            "content-length: -1",
            "content-length: +5",
            "content-length: 5, 5",
            "content-length:",
            "content-length: 99999999999999999999",
            "content-length: 1\r\ncontent-length: 2",
            &format!("content-length: {}5", "0".repeat(300)),
        ] {
            assert_eq!(head(bad), Some(UNCLEAR_LENGTH), "{bad}");
        }
        for bad in [
            "transfer-encoding: gzip",
            "transfer-encoding: gzip, chunked",
            "transfer-encoding: chunked, chunked",
            "transfer-encoding: chunked;q=1",
            "transfer-encoding:",
            "transfer-encoding: chunked\r\ntransfer-encoding: gzip",
            "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
        ] {
            assert_eq!(head(bad), Some(OTHER_CODING), "{bad}");
        }
        assert_eq!(head("host: a\r\n b"), Some(FOLDED));
        for good in [
            "content-length: 0",
            "content-length: 7\r\ncontent-length: 7",
            "x-content-length: 3\r\ntransfer-encoding: chunked",
            "content-length-x: a\r\ntransfer-encodings: b",
        ] {
            assert_eq!(head(good), None, "{good}");
        }
        let chunks =
            |body: &str| fault(&format!("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{body}"));
        for bad in ["x\r\n", "\r\n", "1\r\nab\r\n", "11111111111111111\r\n"] {
            assert_eq!(chunks(bad), Some(BROKEN_CHUNK), "{bad}");
        }
    }

    #[test]
    fn a_connection_of_http2_is_not_read() {
        let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        let frames = format!("{preface}\0\0\0\n\nGET / HTTP/1.1\n\n");
        assert_eq!(read(&[frames.as_bytes()]), (frames.into_bytes(), None));
        assert_eq!(fault(&format!("{PLAIN}{preface}\n")), Some(BARE_LINE_FEED), "only the first can be");
    }
}
