//! Lines of a file of any size, numbered from 1. Never holds more than one line, and of a line never more than the
//! limit; dropping a pending `next` loses nothing.

use std::io;
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// Longer than any task that a server takes by default.
pub(super) const LINE_BYTES_MAX: usize = 16 << 20;

#[derive(Debug)]
pub(super) struct Lines<R> {
    reader: R,
    limit: usize,
    /// The number of the line that was returned last.
    number: u64,
    begun: InputLine,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct InputLine {
    pub(super) number: u64,
    /// The line without its end; empty if it is too long.
    pub(super) text: Vec<u8>,
    /// The number of bytes of the line in the file.
    pub(super) bytes: u64,
    pub(super) is_too_long: bool,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    pub(super) fn new(reader: R, limit: usize) -> Self {
        Self { reader, limit, number: 0, begun: InputLine::default() }
    }

    /// The number of the line that was returned last; 0 before the first.
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// Returns `None` at the end.
    pub(super) async fn next(&mut self) -> io::Result<Option<InputLine>> {
        loop {
            // Cancelled here or not at all: `fill_buf` consumes nothing.
            let chunk = self.reader.fill_buf().await?;
            if chunk.is_empty() {
                return Ok((self.begun.bytes > 0).then(|| self.finish()));
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let part = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
            self.begun.take(part, self.limit);
            let used = part.len() + usize::from(end.is_some());
            self.begun.bytes += u64::try_from(used).unwrap_or(0);
            self.reader.consume(used);
            if end.is_some() {
                return Ok(Some(self.finish()));
            }
        }
    }

    fn finish(&mut self) -> InputLine {
        self.number += 1;
        let mut line = std::mem::take(&mut self.begun);
        line.number = self.number;
        if line.text.last() == Some(&b'\r') {
            line.text.pop();
        }
        line
    }
}

impl InputLine {
    fn take(&mut self, part: &[u8], limit: usize) {
        if self.is_too_long || self.text.len() + part.len() > limit {
            self.is_too_long = true;
            self.text = Vec::new();
        } else {
            self.text.extend_from_slice(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::BufReader;

    async fn all(text: &[u8], limit: usize) -> Vec<InputLine> {
        // A buffer of 4 bytes, so that lines span several reads.
        let mut lines = Lines::new(BufReader::with_capacity(4, text), limit);
        let mut all = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            all.push(line);
        }
        all
    }

    #[tokio::test]
    async fn lines_are_numbered_and_their_ends_taken_off() {
        let lines = all(b"one\r\n\nthree, longer", 100).await;
        let texts: Vec<_> =
            lines.iter().map(|line| (line.number, line.text.as_slice(), line.bytes)).collect();
        let expected: [(u64, &[u8], u64); 3] = [(1, b"one", 5), (2, b"", 1), (3, b"three, longer", 13)];
        assert_eq!(texts, expected);
        assert!(all(b"", 100).await.is_empty());
    }

    #[tokio::test]
    async fn a_line_beyond_the_limit_is_passed_over_and_the_next_one_is_whole() {
        let lines = all(b"0123456789\nok\n", 9).await;
        assert!(lines[0].is_too_long && lines[0].text.is_empty());
        assert_eq!((lines[0].bytes, lines[1].text.as_slice(), lines[1].is_too_long), (11, &b"ok"[..], false));
    }
}
