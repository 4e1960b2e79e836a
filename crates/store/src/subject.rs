//! Files of SQL: one a subject, with many statements, each under its name. They are taken apart while the crate is compiled: a name
//! that a file does not have is an error of the compiler, and the server is sent the text alone, without comments. Must cost
//! nothing at run time but the filling of holes.

#[cfg(test)]
pub(crate) mod tests;

/// Begins a statement; the rest of the line is its name. Other lines of comment follow, then the text up to the next name.
const NAME: &str = "-- name: ";
const STATEMENTS_MAX: usize = 48;

/// The statements of one file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject {
    names: [&'static str; STATEMENTS_MAX],
    texts: [&'static str; STATEMENTS_MAX],
    len: usize,
}

#[expect(clippy::indexing_slicing, reason = "runs in the compiler, which reports what is out of bounds")]
impl Subject {
    pub(crate) const fn new(file: &'static str) -> Self {
        let mut subject = Self { names: [""; STATEMENTS_MAX], texts: [""; STATEMENTS_MAX], len: 0 };
        // What is before the first name is about the file.
        let mut at = next_name(file, 0);
        while at < file.len() {
            let (name_end, begin) = header(file, at);
            let end = next_name(file, begin);
            subject.names[subject.len] = between(file, at + NAME.len(), name_end);
            subject.texts[subject.len] = between(file, begin, end).trim_ascii_end();
            subject.len += 1;
            at = end;
        }
        subject
    }

    /// The text of a statement.
    pub(crate) const fn statement(&self, name: &str) -> &'static str {
        let mut nth = 0;
        while nth < self.len {
            if is_same(self.names[nth], name) {
                return self.texts[nth];
            }
            nth += 1;
        }
        panic!("no statement of the file has this name");
    }
}

/// The position where the line of the next name begins, or the end of the file. The compiler interprets this, and
/// takes microseconds for each step: it reads every eighth byte, and steps less far where that byte is one of `--
/// name:` (Horspool's search).
#[expect(clippy::indexing_slicing, reason = "runs in the compiler, which reports what is out of bounds")]
const fn next_name(file: &str, begin: usize) -> usize {
    let bytes = file.as_bytes();
    let mut last = begin + NAME.len() - 2;
    while last < bytes.len() {
        last += match bytes[last] {
            b':' => {
                let at = last + 2 - NAME.len();
                if is_at(file, at, NAME) && (at == 0 || bytes[at - 1] == b'\n') {
                    return at;
                }
                8
            }
            b'e' => 1,
            b'm' => 2,
            b'a' => 3,
            b'n' => 4,
            b' ' => 5,
            b'-' => 6,
            _ => 8,
        };
    }
    bytes.len()
}

/// The position where the name ends, and where the text begins, after the lines of comment.
#[expect(clippy::indexing_slicing, reason = "runs in the compiler, which reports what is out of bounds")]
const fn header(file: &str, name: usize) -> (usize, usize) {
    let bytes = file.as_bytes();
    let (mut at, mut name_end) = (name, 0);
    while bytes[at] == b'-' && bytes[at + 1] == b'-' {
        while bytes[at] != b'\n' {
            at += 1;
        }
        if name_end == 0 {
            name_end = at;
        }
        at += 1;
    }
    (name_end, at)
}

const fn between(text: &'static str, begin: usize, end: usize) -> &'static str {
    text.split_at(end).0.split_at(begin).1
}

#[expect(clippy::indexing_slicing, reason = "runs in the compiler, which reports what is out of bounds")]
const fn is_at(text: &str, at: usize, word: &str) -> bool {
    let (text, word) = (text.as_bytes(), word.as_bytes());
    let mut nth = 0;
    while nth < word.len() {
        if at + nth >= text.len() || text[at + nth] != word[nth] {
            return false;
        }
        nth += 1;
    }
    true
}

const fn is_same(one: &str, other: &str) -> bool {
    one.len() == other.len() && is_at(one, 0, other)
}

/// The files of a back end, which are beside the Rust that uses them. Each is split once for the whole crate.
macro_rules! subjects {
    ($($subject:ident),+ $(,)?) => {
        #[allow(non_upper_case_globals, reason = "named as its file")]
        pub(crate) mod subjects {
            $(pub(crate) const $subject: $crate::subject::Subject =
                $crate::subject::Subject::new(include_str!(concat!(stringify!($subject), ".sql")));)+
        }
    };
}
pub(crate) use subjects;

/// The text with its hole, as `{name}`, filled.
pub(crate) fn filled(text: &str, hole: &str, with: &str) -> String {
    let (before, after) = text.split_once(hole).expect("the statement has this hole once");
    [before, with, after].concat()
}

/// The text with what is in its holes `{name: …}` so many times, with commas between.
pub(crate) fn repeated(text: &str, times: usize) -> String {
    let mut filled = String::with_capacity(text.len() + 16 * times);
    let mut rest = text;
    while let Some((before, repeated, after)) = repeated_hole(rest) {
        filled.push_str(before);
        for nth in 0..times {
            filled.push_str(if nth == 0 { "" } else { ", " });
            filled.push_str(repeated);
        }
        rest = after;
    }
    filled.push_str(rest);
    filled
}

/// The text before the first hole `{name: …}`, in it, and after it.
fn repeated_hole(text: &str) -> Option<(&str, &str, &str)> {
    text.match_indices('{').find_map(|(at, _)| {
        let (before, hole) = (text.get(..at)?, text.get(at + 1..)?);
        let (hole, after) = hole.split_once('}')?;
        let (name, repeated) = hole.split_once(": ")?;
        name.bytes().all(|byte| byte.is_ascii_lowercase()).then_some((before, repeated, after))
    })
}
