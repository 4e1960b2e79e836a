//! The tokens of an expression: names, literals, signs. Handles string literals, comments and white space, so
//! that no later stage reads text. Takes time proportional to the length of the text.

use crate::error::Mistake;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Word<'a> {
    Int(&'a str),
    UInt(&'a str),
    Double(&'a str),
    Text(Arc<str>),
    Bytes(Arc<[u8]>),
    Name(&'a str),
    Sign(&'static str),
    End,
}

#[derive(Clone, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) word: Word<'a>,
    pub(crate) at: u16,
    pub(crate) end: u16,
}

/// The longer ones first.
const SIGNS: [&str; 23] = [
    "&&", "||", "==", "!=", "<=", ">=", "(", ")", "[", "]", "{", "}", ".", ",", "?", ":", "+", "-", "*", "/",
    "%", "<", ">",
];
const NOT: &str = "!";

/// All tokens, with one at the end that represents the end.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token<'_>>, Mistake> {
    let mut lexer = Lexer { text, at: 0 };
    let mut all = Vec::new();
    loop {
        lexer.skip_what_means_nothing();
        let at = lexer.at;
        let word = lexer.word()?;
        let is_end = word == Word::End;
        all.push(Token { word, at: place(at), end: place(lexer.at) });
        if is_end {
            return Ok(all);
        }
    }
}

/// A text is shorter than 64 KiB.
pub(crate) fn place(at: usize) -> u16 {
    u16::try_from(at).unwrap_or(u16::MAX)
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take_while(&mut self, is_wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|letter| !is_wanted(letter)).unwrap_or(rest.len());
        self.at += length;
        rest.get(..length).unwrap_or_default()
    }

    fn take_if(&mut self, prefix: &str) -> bool {
        let is_there = self.rest().starts_with(prefix);
        self.at += if is_there { prefix.len() } else { 0 };
        is_there
    }

    fn mistake(&self, at: usize, problem: impl Into<String>) -> Mistake {
        Mistake::new(at, self.at, problem)
    }

    fn skip_what_means_nothing(&mut self) {
        loop {
            self.take_while(|letter| matches!(letter, ' ' | '\t' | '\n' | '\r' | '\x0c'));
            if !self.rest().starts_with("//") {
                return;
            }
            self.take_while(|letter| letter != '\n');
        }
    }

    fn word(&mut self) -> Result<Word<'a>, Mistake> {
        let at = self.at;
        let Some(first) = self.peek() else { return Ok(Word::End) };
        let second = self.rest().chars().nth(1);
        if first.is_ascii_digit() || (first == '.' && second.is_some_and(|second| second.is_ascii_digit())) {
            return self.number();
        }
        if let Some(literal) = self.literal()? {
            return Ok(literal);
        }
        if first.is_ascii_alphabetic() || first == '_' {
            return Ok(Word::Name(self.take_while(is_of_name)));
        }
        if let Some(sign) = SIGNS.into_iter().chain([NOT]).find(|sign| self.take_if(sign)) {
            return Ok(Word::Sign(sign));
        }
        self.at += first.len_utf8();
        Err(self.mistake(at, format!("{first:?} means nothing here")))
    }

    fn number(&mut self) -> Result<Word<'a>, Mistake> {
        let at = self.at;
        let mut is_double = false;
        let is_hex = self.take_if("0x") || self.take_if("0X");
        if is_hex {
            self.take_while(|letter| letter.is_ascii_hexdigit());
        } else {
            self.take_while(|letter| letter.is_ascii_digit());
            let mut after = self.rest().chars();
            if after.next() == Some('.') && after.next().is_some_and(|after| after.is_ascii_digit()) {
                is_double = true;
                self.at += 1;
                self.take_while(|letter| letter.is_ascii_digit());
            }
            if self.take_if("e") || self.take_if("E") {
                is_double = true;
                let _ = self.take_if("+") || self.take_if("-");
                self.take_while(|letter| letter.is_ascii_digit());
            }
        }
        let text = self.text.get(at..self.at).unwrap_or_default();
        let is_unsigned = !is_double && (self.take_if("u") || self.take_if("U"));
        if self.peek().is_some_and(is_of_name) {
            self.take_while(is_of_name);
            return Err(self.mistake(at, "a number ends in letters"));
        }
        Ok(match (is_double, is_unsigned) {
            (true, _) => Word::Double(text),
            (false, true) => Word::UInt(text),
            (false, false) => Word::Int(text),
        })
    }

    /// Reads a literal of text or bytes, if there is one: `'…'`, `"…"`, three quotes, with `r` and `b` before them.
    fn literal(&mut self) -> Result<Option<Word<'a>>, Mistake> {
        let at = self.at;
        let prefix = self.rest().find(['\'', '"']).filter(|length| *length <= 2);
        let Some(prefix) = prefix.and_then(|length| self.rest().get(..length)) else { return Ok(None) };
        let lower = prefix.to_ascii_lowercase();
        let (is_raw, is_bytes) = match lower.as_str() {
            "" => (false, false),
            "r" => (true, false),
            "b" => (false, true),
            "br" => (true, true),
            _ => return Ok(None),
        };
        self.at += prefix.len();
        let quote = if self.peek() == Some('"') { "\"" } else { "'" };
        let three = quote.repeat(3);
        let end = if self.take_if(&three) { three.as_str() } else { quote };
        if end.len() == 1 {
            self.at += 1;
        }
        let mut made = Vec::new();
        while !self.take_if(end) {
            let letter = self.peek().filter(|letter| end.len() == 3 || !matches!(letter, '\n' | '\r'));
            let Some(letter) = letter else {
                return Err(self.mistake(at, format!("a text that begins with {end} has no end")));
            };
            self.at += letter.len_utf8();
            if letter == '\\' && !is_raw {
                self.escaped(is_bytes, &mut made)?;
            } else {
                made.extend(letter.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        if is_bytes {
            return Ok(Some(Word::Bytes(made.into())));
        }
        let text = String::from_utf8(made).map_err(|_| self.mistake(at, "it is no text"))?;
        Ok(Some(Word::Text(text.into())))
    }

    /// The character after a backslash.
    fn escaped(&mut self, is_bytes: bool, made: &mut Vec<u8>) -> Result<(), Mistake> {
        let at = self.at - 1;
        let letter = self.peek();
        self.at += letter.map_or(0, char::len_utf8);
        let plain = match letter {
            Some('a') => Some(0x07),
            Some('b') => Some(0x08),
            Some('f') => Some(0x0c),
            Some('n') => Some(b'\n'),
            Some('r') => Some(b'\r'),
            Some('t') => Some(b'\t'),
            Some('v') => Some(0x0b),
            Some(sign @ ('\\' | '\'' | '"' | '`' | '?')) => u8::try_from(sign).ok(),
            _ => None,
        };
        if let Some(byte) = plain {
            made.push(byte);
            return Ok(());
        }
        let number = match letter {
            Some('x' | 'X') => self.digits(2, 16),
            Some('u') if !is_bytes => self.digits(4, 16),
            Some('U') if !is_bytes => self.digits(8, 16),
            Some('0'..='3') => {
                self.at -= 1;
                self.digits(3, 8)
            }
            _ => None,
        };
        let wrong = |lexer: &Self| lexer.mistake(at, "an escape sequence that is not known");
        let number = number.ok_or_else(|| wrong(self))?;
        if is_bytes {
            made.push(u8::try_from(number).map_err(|_| wrong(self))?);
        } else {
            let letter = char::from_u32(number).ok_or_else(|| wrong(self))?;
            made.extend(letter.encode_utf8(&mut [0; 4]).as_bytes());
        }
        Ok(())
    }

    fn digits(&mut self, count: usize, radix: u32) -> Option<u32> {
        let digits = self.rest().get(..count)?;
        let number = digits.chars().all(|letter| letter.is_digit(radix));
        self.at += count;
        number.then(|| u32::from_str_radix(digits, radix).ok()).flatten()
    }
}

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}
