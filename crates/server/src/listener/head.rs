//! Reads the heads of HTTP/1 along with the HTTP library, for the one thing that the library does not show: that a body
//! was given two lengths. Two who read them differently, a proxy and this server, would take its end for a request.

/// As long as the longest name that is looked for, and one more.
const NAME_MAX_BYTES: usize = "transfer-encoding:".len();

/// Of the head that comes, as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Head {
    /// How the present line begins.
    line: Vec<u8>,
    has_begun: bool,
    is_whole: bool,
    has_length: bool,
    has_coding: bool,
}

impl Head {
    /// What came between two requests. What comes after the end of the head is not looked at.
    pub(super) fn read(&mut self, mut bytes: &[u8]) {
        if self.is_whole {
            *self = Self { line: std::mem::take(&mut self.line), ..Self::default() };
        }
        while !self.is_whole && !bytes.is_empty() {
            let end = bytes.iter().position(|it| *it == b'\n');
            let (line, rest) = bytes.split_at(end.map_or(bytes.len(), |it| it + 1));
            let room = NAME_MAX_BYTES - self.line.len();
            self.line.extend(line.iter().take(room));
            if end.is_some() {
                self.end_line();
            }
            bytes = rest;
        }
    }

    /// The body has a length and is sent in pieces as well.
    pub(super) const fn is_framed_twice(&self) -> bool {
        self.has_length && self.has_coding
    }

    fn end_line(&mut self) {
        let is_empty = self.line.trim_ascii().is_empty();
        self.is_whole = is_empty && self.has_begun;
        self.has_begun |= !is_empty;
        let is = |name: &[u8]| {
            self.line.split_at_checked(name.len()).is_some_and(|(it, _)| it.eq_ignore_ascii_case(name))
        };
        let (length, coding) = (is(b"content-length:"), is(b"transfer-encoding:"));
        self.has_length |= length;
        self.has_coding |= coding;
        self.line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWICE: &str =
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nhost: a\r\nContent-LENGTH: 3\r\n\r\n";

    fn is_framed_twice(pieces: &[&str]) -> bool {
        let mut head = Head::default();
        pieces.iter().for_each(|it| head.read(it.as_bytes()));
        head.is_framed_twice()
    }

    #[test]
    fn two_lengths_are_found_in_either_order_and_however_they_come() {
        assert!(is_framed_twice(&[TWICE]));
        assert!(is_framed_twice(&["\r\nPOST / HTTP/1.1\ncontent-length:3\ntransfer-encoding:chunked\n\n"]));
        for at in 1..TWICE.len() {
            let (first, second) = TWICE.split_at(at);
            assert!(is_framed_twice(&[first, second]), "{at}");
        }
    }

    #[test]
    fn one_length_is_one_and_what_follows_the_head_is_not_of_it() {
        for one in
            ["content-length: 3", "transfer-encoding: chunked", "x-content-length: 3\r\ntransfer-encoding: a"]
        {
            assert!(!is_framed_twice(&[&format!("POST / HTTP/1.1\r\n{one}\r\n\r\n")]), "{one}");
        }
        let body =
            "POST / HTTP/1.1\r\ncontent-length: 40\r\n\r\ntransfer-encoding: chunked\r\ncontent-length: 1";
        assert!(!is_framed_twice(&[body]));
    }

    #[test]
    fn each_head_begins_anew() {
        assert!(!is_framed_twice(&[TWICE, "GET / HTTP/1.1\r\nhost: a\r\n\r\n"]));
        assert!(is_framed_twice(&["GET / HTTP/1.1\r\nhost: a\r\n\r\n", TWICE]));
    }
}
