//! A blocking Redis client for the bare pipeline: requests are written one after the other and sent together, and answers
//! are read in their order. Knows no command.

use anyhow::Context as _;
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum RedisValue {
    Text(String),
    Bytes(Vec<u8>),
    Nil,
    List(Vec<Self>),
}

impl RedisValue {
    /// The items of a list; none of anything else.
    pub(super) fn items(self) -> Vec<Self> {
        if let Self::List(items) = self { items } else { Vec::new() }
    }

    pub(super) fn bytes(self) -> anyhow::Result<Vec<u8>> {
        let Self::Bytes(bytes) = self else { anyhow::bail!("{self:?} instead of bytes") };
        Ok(bytes)
    }
}

pub(super) struct Client {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
    request: Vec<u8>,
    unanswered: usize,
}

impl Client {
    pub(super) fn connect(port: u16) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).context("connecting to Redis")?;
        stream.set_nodelay(true)?;
        let reader = BufReader::with_capacity(1 << 18, stream.try_clone()?);
        Ok(Self { stream, reader, request: Vec::new(), unanswered: 0 })
    }

    /// Begins a command of so many words, which `word` adds.
    pub(super) fn begin(&mut self, words: usize) {
        write_to(&mut self.request, format_args!("*{words}\r\n"));
        self.unanswered += 1;
    }

    pub(super) fn word(&mut self, word: &[u8]) {
        write_to(&mut self.request, format_args!("${}\r\n", word.len()));
        self.request.extend_from_slice(word);
        self.request.extend_from_slice(b"\r\n");
    }

    pub(super) fn command(&mut self, words: &[&[u8]]) {
        self.begin(words.len());
        words.iter().for_each(|word| self.word(word));
    }

    /// Sends what was written; the answers to all of it.
    pub(super) fn answers(&mut self) -> anyhow::Result<Vec<RedisValue>> {
        self.stream.write_all(&self.request).context("sending to Redis")?;
        self.request.clear();
        (0..std::mem::take(&mut self.unanswered)).map(|_| self.answer()).collect()
    }

    fn answer(&mut self) -> anyhow::Result<RedisValue> {
        let mut line = String::new();
        self.reader.read_line(&mut line).context("reading from Redis")?;
        let mut rest = line.trim_end().chars();
        let (kind, text) = (rest.next().context("Redis has hung up")?, rest.as_str());
        match (kind, text) {
            ('-', error) => anyhow::bail!("Redis: {error}"),
            ('$' | '*', "-1") => Ok(RedisValue::Nil),
            ('$', length) => {
                let mut bytes = vec![0; length.parse::<usize>()? + 2];
                self.reader.read_exact(&mut bytes).context("reading from Redis")?;
                bytes.truncate(bytes.len() - 2);
                Ok(RedisValue::Bytes(bytes))
            }
            ('*', length) => (0..length.parse::<usize>()?)
                .map(|_| self.answer())
                .collect::<Result<_, _>>()
                .map(RedisValue::List),
            (_, text) => Ok(RedisValue::Text(text.to_owned())),
        }
    }
}

fn write_to(bytes: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    bytes.write_fmt(text).expect("a vector takes every write");
}
