//! Lines on their way to a writer that may fail, or block: a bounded queue, and a thread that writes. A caller
//! neither waits nor fails; a line for which there is no room, or that cannot be written, is dropped and
//! counted. Must never log, print or panic.

use crate::output::clean;
use punctual_engine::ProcessMeters;
use std::{
    io::{self, Write},
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};
use tracing_subscriber::fmt::MakeWriter;

/// Lines that wait: a few megabytes, and seconds of a busy log.
const WAITING_MAX: usize = 16_384;

/// Cheap to clone; all clones are the same queue.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    queue: SyncSender<Message>,
    meters: Arc<ProcessMeters>,
}

#[derive(Debug)]
enum Message {
    Line(Vec<u8>),
    /// All earlier lines are written when this is answered.
    Flush(SyncSender<()>),
}

impl Lines {
    pub(crate) fn to(writer: impl Write + Send + 'static, meters: Arc<ProcessMeters>) -> Self {
        let (queue, waiting) = sync_channel(WAITING_MAX);
        let counted = Arc::clone(&meters);
        // Without a thread nothing takes the lines, and each is counted as lost.
        drop(thread::Builder::new().name("punctual-lines".into()).spawn(|| write(writer, waiting, counted)));
        Self { queue, meters }
    }

    pub(crate) fn push(&self, line: Vec<u8>) {
        if self.queue.try_send(Message::Line(line)).is_err() {
            self.meters.log_line_lost();
        }
    }

    /// Logs a line. It may contain a tenant's text, and may be read on a terminal.
    pub(crate) fn log(&self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let is_json = text.starts_with('{');
        let clean = if is_json { clean::json(text.into_owned()) } else { clean::logged(&text) };
        self.push(clean.into_bytes());
    }

    /// Waits until what was pushed before is written, or for so long.
    pub(crate) fn flush(&self, within: Duration) {
        let (written, seen) = sync_channel(1);
        if self.queue.try_send(Message::Flush(written)).is_ok() {
            // If it comes too late, or never: what is left goes with the process.
            let _ = seen.recv_timeout(within);
        }
    }
}

/// The thread. It ends with the last of those who push, or with the process.
#[expect(clippy::needless_pass_by_value, reason = "the thread owns what it works on")]
fn write(mut writer: impl Write, waiting: Receiver<Message>, meters: Arc<ProcessMeters>) {
    for message in &waiting {
        match message {
            Message::Line(line) => {
                if writer.write_all(&line).is_err() {
                    meters.log_line_lost();
                }
            }
            Message::Flush(written) => {
                drop(writer.flush());
                let _ = written.send(());
            }
        }
    }
}

/// One event of `tracing`, which writes it in one piece.
#[derive(Debug)]
pub(crate) struct LogEvent<'l>(&'l Lines);

impl Write for LogEvent<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.log(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'l> MakeWriter<'l> for Lines {
    type Writer = LogEvent<'l>;

    fn make_writer(&'l self) -> Self::Writer {
        LogEvent(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use punctual_testkit::patience::HANG_LIMIT;

    /// Fails while its memory is full, blocks while another holds it.
    #[derive(Clone, Default)]
    struct Memory {
        written: Arc<Mutex<Vec<u8>>>,
        is_full: Arc<Mutex<bool>>,
    }

    impl Write for Memory {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            if *self.is_full.lock() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.written.lock().extend(line);
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn text(memory: &Memory) -> String {
        String::from_utf8(memory.written.lock().clone()).unwrap()
    }

    #[test]
    fn a_line_that_cannot_be_written_is_dropped_and_counted_and_the_next_is_written() {
        let (memory, meters) = (Memory::default(), Arc::new(ProcessMeters::default()));
        let lines = Lines::to(memory.clone(), Arc::clone(&meters));
        *memory.is_full.lock() = true;
        lines.push(b"a\n".to_vec());
        lines.flush(HANG_LIMIT);
        *memory.is_full.lock() = false;
        lines.push(b"b\n".to_vec());
        lines.flush(HANG_LIMIT);
        assert_eq!((text(&memory).as_str(), meters.log_lines_lost_total()), ("b\n", 1));
    }

    #[test]
    fn a_writer_that_stands_still_stops_nobody() {
        let (memory, meters) = (Memory::default(), Arc::new(ProcessMeters::default()));
        let lines = Lines::to(memory.clone(), Arc::clone(&meters));
        let stands_still = memory.written.lock();
        // One is with the thread, perhaps.
        for _ in 0..WAITING_MAX + 10 {
            lines.push(b"line\n".to_vec());
        }
        lines.flush(Duration::from_millis(1));
        assert!((9..=10).contains(&meters.log_lines_lost_total()), "{}", meters.log_lines_lost_total());
        drop(stands_still);
        wait_until_taken(&lines);
        assert_eq!(text(&memory).lines().count() as u64 + meters.log_lines_lost_total(), 16_394);
    }

    /// The queue was full: a first flush may find no room.
    fn wait_until_taken(lines: &Lines) {
        let (written, seen) = sync_channel(1);
        lines.queue.send(Message::Flush(written)).unwrap();
        seen.recv_timeout(HANG_LIMIT).unwrap();
    }
}
