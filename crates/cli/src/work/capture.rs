//! The output of a command: its beginning or its end, within a bound, read to the last byte so that the command never
//! waits for a full pipe.

use tokio::io::{AsyncRead, AsyncReadExt};

#[derive(Debug)]
pub(super) enum Capture {
    Beginning { kept: Vec<u8>, max: usize, is_cut: bool },
    End { kept: Vec<u8>, max: usize },
}

impl Capture {
    pub(super) const fn beginning(max: usize) -> Self {
        Self::Beginning { kept: Vec::new(), max, is_cut: false }
    }

    pub(super) const fn end(max: usize) -> Self {
        Self::End { kept: Vec::new(), max }
    }

    /// Reads to the end of `from`. If this is dropped half-way, the text that was read stays.
    pub(super) async fn read(&mut self, from: Option<impl AsyncRead + Unpin>) {
        let Some(mut from) = from else { return };
        let mut chunk = vec![0; 8 << 10];
        while let Ok(count @ 1..) = from.read(&mut chunk).await {
            self.take(chunk.get(..count).unwrap_or_default());
        }
    }

    fn take(&mut self, chunk: &[u8]) {
        match self {
            Self::Beginning { kept, max, is_cut } => {
                let room = chunk.len().min(*max - kept.len());
                kept.extend_from_slice(chunk.get(..room).unwrap_or_default());
                *is_cut |= room < chunk.len();
            }
            Self::End { kept, max } => {
                kept.extend_from_slice(chunk);
                kept.drain(..kept.len().saturating_sub(*max));
            }
        }
    }

    /// The text without blanks at the end. A note marks truncated text.
    pub(super) fn text(&self) -> String {
        let (kept, note) = match self {
            Self::Beginning { kept, max, is_cut: true } => (kept, format!("\n[cut after {max} bytes]")),
            Self::Beginning { kept, .. } | Self::End { kept, .. } => (kept, String::new()),
        };
        format!("{}{note}", String::from_utf8_lossy(kept).trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn captured(mut capture: Capture, text: &str) -> String {
        capture.read(Some(text.as_bytes())).await;
        capture.text()
    }

    #[tokio::test]
    async fn the_beginning_is_kept_and_a_cut_is_told() {
        assert_eq!(captured(Capture::beginning(5), "hello\n").await, "hello\n[cut after 5 bytes]");
        assert_eq!(captured(Capture::beginning(6), "hello\n").await, "hello");
    }

    #[tokio::test]
    async fn the_end_is_kept() {
        assert_eq!(captured(Capture::end(4), &"x".repeat(20_000)).await, "xxxx");
        assert_eq!(captured(Capture::end(6), "first\nlast\n").await, "\nlast");
    }
}
