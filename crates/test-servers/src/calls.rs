//! Counts the calls that clients send to a private Redis, as it reports them itself (`MONITOR`), and how many
//! of them are scripts. Commands within scripts are not counted. Must not be used on a Redis that is killed
//! meanwhile.

use crate::{Redis, beside};
use std::{
    io::{BufRead as _, BufReader, Error, ErrorKind, Result, Write as _},
    net::TcpStream,
    thread::JoinHandle,
};

/// Calls from one instant on.
#[derive(Debug)]
pub struct Calls {
    /// Our own call that ends the count.
    mark: String,
    counting: JoinHandle<Result<CallTally>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallTally {
    pub calls: u64,
    pub scripts: u64,
}

impl Redis {
    /// Counts the calls from now on.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn calls(&self) -> Result<Calls> {
        let (port, mark) = (self.port(), format!("mark-{:016x}", fastrand::u64(..)));
        let until = mark.clone();
        let lines = beside(move || begin(port)).await?;
        let counting = std::thread::spawn(move || count(lines, &until));
        Ok(Calls { mark, counting })
    }
}

impl Calls {
    /// The tally of all calls until now.
    ///
    /// # Errors
    /// When the server has ended.
    pub async fn tally(self, redis: &Redis) -> Result<CallTally> {
        redis.command(&["ECHO", &self.mark]).await;
        beside(move || self.counting.join()).await.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn begin(port: u16) -> Result<BufReader<TcpStream>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(b"MONITOR\r\n")?;
    let mut lines = BufReader::new(stream);
    let mut answer = Vec::new();
    lines.read_until(b'\n', &mut answer)?;
    if answer == b"+OK\r\n" { Ok(lines) } else { Err(Error::other(String::from_utf8_lossy(&answer))) }
}

/// A line is a call: its time, in brackets its database and origin, and its quoted words, in which line
/// breaks are escaped.
fn count(mut lines: BufReader<TcpStream>, until: &str) -> Result<CallTally> {
    let (mut tally, mut line) = (CallTally::default(), Vec::new());
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line)? == 0 {
            return Err(Error::from(ErrorKind::UnexpectedEof));
        }
        let text = String::from_utf8_lossy(&line);
        let Some((from, words)) = text.split_once("] ") else { continue };
        let command = words.split('"').nth(1).unwrap_or_default().to_ascii_lowercase();
        if command == "echo" && words.contains(until) {
            return Ok(tally);
        }
        if !from.ends_with(" lua") {
            tally.calls += 1;
            tally.scripts += u64::from(
                ["eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro"].contains(&&*command),
            );
        }
    }
}
