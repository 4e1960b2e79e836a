//! Log lines of running handlers, stored with the task: one JSON object per line, the oldest first. Bounded:
//! the oldest lines are dropped. An unreadable line is skipped.

use crate::{history::clip, time::Millis};
use serde::{Deserialize, Serialize};

/// The maximum size of a task's stored log, in bytes.
pub const LOG_LEN_MAX: usize = 16_384;
/// Longest text of one line, in bytes.
pub const LOG_TEXT_LEN_MAX: usize = 4_096;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    pub at: Millis,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    pub text: String,
}

/// The stored form of new lines: complete lines, the newest that fit into `LOG_LEN_MAX` bytes. `None` if there are no
/// lines.
#[must_use]
pub fn encode(lines: impl IntoIterator<Item = LogLine>) -> Option<String> {
    let one = |mut line: LogLine| {
        line.text.truncate(clip(&line.text, LOG_TEXT_LEN_MAX).len());
        let json = serde_json::to_string(&line).expect("numbers and strings always have a JSON form");
        json + "\n"
    };
    let lines: Vec<String> = lines.into_iter().map(one).collect();
    let mut bytes = 0;
    let fits = |text: &&String| {
        bytes += text.len();
        bytes <= LOG_LEN_MAX
    };
    let newest = lines.iter().rev().take_while(fits).count();
    let kept = lines.get(lines.len() - newest..).unwrap_or_default().concat();
    (!kept.is_empty()).then_some(kept)
}

#[must_use]
pub fn decode(text: &str) -> Vec<LogLine> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(nth: usize, text: &str) -> LogLine {
        LogLine { at: Millis(i64::try_from(nth).unwrap()), level: Some("info".into()), text: text.into() }
    }

    #[test]
    fn lines_read_back_as_they_were_said() {
        let lines = vec![said(1, "a\nb \"c\" \u{1F980}"), LogLine { level: None, ..said(2, "") }];
        let text = encode(lines.clone()).unwrap();
        assert_eq!(text.lines().count(), 2);
        assert_eq!(decode(&text), lines);
        assert_eq!(encode([]), None);
        assert_eq!(
            decode("nonsense\n{\"at\":1,\"text\":\"x\"}\n{\"at\""),
            [LogLine { level: None, ..said(1, "x") }]
        );
    }

    #[test]
    fn of_too_many_lines_the_newest_are_kept_and_none_is_cut() {
        let many = encode((0..1_000).map(|nth| said(nth, &"x".repeat(100)))).unwrap();
        let kept = decode(&many);
        assert!(many.len() <= LOG_LEN_MAX && many.len() > LOG_LEN_MAX - 200, "{}", many.len());
        assert_eq!((kept.last().unwrap().at, kept.len()), (Millis(999), many.lines().count()));
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        let kept = decode(&encode([said(1, &format!("a{}", "é".repeat(4_000)))]).unwrap()).remove(0);
        assert_eq!(kept.text.len(), LOG_TEXT_LEN_MAX - 1);
        let control = encode([said(1, &"\u{1}".repeat(LOG_TEXT_LEN_MAX))]);
        assert_eq!(control, None, "longer than all that is kept, once it is written as JSON");
    }
}
