//! Repeated warnings and errors. For each place in the code and each subject of its lines, one line is written at
//! once, and at most one a second while more follow: the newest, with `times=N`, the number of lines that it
//! represents. So the lines and their `times` add up to all messages. For engines; must never hold a message for
//! longer, nor log, print or panic.

use super::lines::Lines;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Once},
    thread,
    time::Duration,
};
use tokio::time::Instant;
use tracing::{Event, Level, Subscriber, callsite::Identifier, field};
use tracing_subscriber::{
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    registry::LookupSpan,
};

/// The fields that identify the subject of a line, without their digits: ids, times and counts differ every time, as
/// does the rest of a line.
const ABOUT: [&str; 12] = [
    "code", "service", "part", "shard", "shard_no", "at", "reason", "kind", "place", "error", "message",
    "panic",
];
/// The maximum number of subjects of one place in the code; further ones are counted together.
const RUNS_MAX: usize = 20;
const PAUSE: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    Text,
    Json,
}

type Key = (Identifier, String);

#[derive(Debug)]
struct Repeated {
    written_at: Instant,
    /// The newest, and how many it represents.
    held: Option<(String, u64)>,
}

#[derive(Debug)]
pub(super) struct Repetitions {
    shape: Shape,
    runs: Mutex<HashMap<Key, Repeated>>,
    lines: Lines,
    ticking: Once,
}

impl Repetitions {
    pub(super) fn new(shape: Shape, lines: Lines) -> Arc<Self> {
        Arc::new(Self { shape, runs: Mutex::default(), lines, ticking: Once::new() })
    }

    /// True if the line must be written now; false if it must be held.
    fn is_first(&self, key: &Key, now: Instant) -> bool {
        let mut runs = self.runs.lock();
        match runs.get_mut(key) {
            Some(run) if run.held.is_some() || now.duration_since(run.written_at) < PAUSE => false,
            Some(run) => {
                run.written_at = now;
                true
            }
            None => {
                runs.insert(key.clone(), Repeated { written_at: now, held: None });
                true
            }
        }
    }

    fn hold(self: &Arc<Self>, key: &Key, line: String, now: Instant) {
        {
            let mut runs = self.runs.lock();
            // It may have been forgotten since it was found not to be a first.
            let run = runs.entry(key.clone()).or_insert(Repeated { written_at: now, held: None });
            let before = run.held.take().map_or(0, |held| held.1);
            run.held = Some((line, before + 1));
        }
        self.ticking.call_once(|| {
            let ticking = Arc::clone(self);
            // Without a thread what is held is written at the end.
            drop(thread::Builder::new().name("punctual-log".into()).spawn(move || {
                loop {
                    thread::park_timeout(TICK);
                    ticking.tick(Instant::now());
                }
            }));
        });
    }

    /// Writes lines that were held for long enough, and removes subjects without further lines.
    fn tick(&self, now: Instant) {
        self.runs.lock().retain(|_, run| {
            let is_over = now.duration_since(run.written_at) >= PAUSE;
            !is_over || self.write(run, now)
        });
    }

    /// Writes the held line. Returns true if there was one.
    fn write(&self, run: &mut Repeated, now: Instant) -> bool {
        let Some((line, times)) = run.held.take() else { return false };
        self.lines.log(reported(self.shape, &line, times).as_bytes());
        run.written_at = now;
        true
    }

    /// The process ends.
    pub(super) fn write_all(&self) {
        let now = Instant::now();
        for run in self.runs.lock().values_mut() {
            self.write(run, now);
        }
    }

    fn key(&self, event: &Event<'_>) -> Key {
        let mut about = About(String::new());
        event.record(&mut about);
        let key = (event.metadata().callsite(), about.0);
        let runs = self.runs.lock();
        let of_place = || runs.keys().filter(|pair| pair.0 == key.0).count();
        if runs.contains_key(&key) || of_place() < RUNS_MAX { key } else { (key.0, String::new()) }
    }
}

/// The line, with the number of times that it was logged. A single line is unchanged.
fn reported(shape: Shape, line: &str, times: u64) -> String {
    if times == 1 {
        return line.to_owned();
    }
    let end = line.trim_end();
    match shape {
        Shape::Text => format!("{end} times={times}\n"),
        Shape::Json => {
            let open = end.strip_suffix('}').unwrap_or(end);
            format!("{open},\"times\":{times}}}\n")
        }
    }
}

struct About(String);

impl field::Visit for About {
    fn record_debug(&mut self, field: &field::Field, value: &dyn fmt::Debug) {
        if ABOUT.contains(&field.name()) {
            let said = format!("{value:?}");
            self.0.extend(said.chars().filter(|letter| !letter.is_ascii_digit()));
            self.0.push('\n');
        }
    }
}

/// Formats as `F` does, and leaves out what is held; without `repetitions` nothing is.
#[derive(Debug)]
pub(super) struct Thinned<F> {
    pub(super) format: F,
    pub(super) repetitions: Option<Arc<Repetitions>>,
}

impl<S, N, F> FormatEvent<S, N> for Thinned<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'w> FormatFields<'w> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        // What is worth a look and no worry is said each time.
        let repetitions = self.repetitions.as_ref().filter(|_| *event.metadata().level() <= Level::WARN);
        let Some(repetitions) = repetitions else {
            return self.format.format_event(context, writer, event);
        };
        let (key, now) = (repetitions.key(event), Instant::now());
        if repetitions.is_first(&key, now) {
            return self.format.format_event(context, writer, event);
        }
        let mut line = String::new();
        self.format.format_event(context, Writer::new(&mut line), event)?;
        repetitions.hold(&key, line, now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_engine::ProcessMeters;
    use punctual_testkit::patience::HANG_LIMIT;
    use std::io;
    use tracing_subscriber::{fmt::format, layer::SubscriberExt as _};

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Memory {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.lock().extend(line);
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A log, and all its lines so far once what is held was written.
    struct CapturedLog {
        memory: Memory,
        lines: Lines,
        repetitions: Arc<Repetitions>,
    }

    impl CapturedLog {
        fn new(shape: Shape) -> Self {
            let memory = Memory::default();
            let lines = Lines::to(memory.clone(), Arc::new(ProcessMeters::default()));
            let repetitions = Repetitions::new(shape, lines.clone());
            // No thread of its own: the test says what time it is.
            repetitions.ticking.call_once(|| {});
            Self { memory, lines, repetitions }
        }

        fn while_logging(&self, what: impl FnOnce()) {
            let format = format().without_time().with_ansi(false);
            let format = Thinned { format, repetitions: Some(Arc::clone(&self.repetitions)) };
            let layer = tracing_subscriber::fmt::layer().event_format(format).with_writer(self.lines.clone());
            tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), what);
        }

        fn lines(&self) -> Vec<String> {
            self.lines.flush(HANG_LIMIT);
            String::from_utf8(self.memory.0.lock().clone()).unwrap().lines().map(str::to_owned).collect()
        }
    }

    fn times(lines: &[String]) -> u64 {
        let of = |text: &String| {
            let times = text.split_once("times=").map(|(_, rest)| rest.split(' ').next().unwrap().to_owned());
            times.map_or(1, |times| times.parse::<u64>().unwrap())
        };
        lines.iter().map(of).sum()
    }

    #[test]
    fn of_thousands_of_one_place_the_first_and_a_few_are_written_and_their_times_add_up() {
        let log = CapturedLog::new(Shape::Text);
        let began = Instant::now();
        log.while_logging(|| {
            for n in 0..3_000 {
                tracing::warn!(n, "a request failed");
            }
        });
        assert_eq!(log.lines().len(), 1, "the first, at once");
        log.repetitions.tick(began);
        assert_eq!(log.lines().len(), 1, "not before a second");
        log.repetitions.tick(began + 2 * PAUSE);
        assert_eq!(log.lines().len(), 2);
        log.repetitions.tick(began + 4 * PAUSE);
        assert_eq!(log.lines().len(), 2, "nothing came since");
        let lines = log.lines();
        assert!(lines[1].ends_with("n=2999 times=2999"), "the newest: {lines:?}");
        assert_eq!(times(&lines), 3_000);
    }

    #[test]
    fn what_lines_are_about_is_told_apart_and_what_is_no_worry_is_said_each_time() {
        let log = CapturedLog::new(Shape::Text);
        log.while_logging(|| {
            for n in 0..30 {
                let code = if n % 2 == 0 { "store.unavailable" } else { "store.outcome_unknown" };
                tracing::warn!(code, n, "a request failed");
                tracing::info!(n, "a task");
            }
        });
        assert_eq!(log.lines().iter().filter(|line| line.contains("WARN")).count(), 2);
        assert_eq!(log.lines().iter().filter(|line| line.contains("INFO")).count(), 30);
        log.repetitions.write_all();
        let lines = log.lines();
        let warnings: Vec<_> = lines.into_iter().filter(|line| line.contains("WARN")).collect();
        assert_eq!((warnings.len(), times(&warnings)), (4, 30), "{warnings:?}");
    }

    /// Frequent lines must not hide rare ones from the same place in the code.
    #[test]
    fn another_error_is_another_line_and_very_many_others_are_not() {
        let log = CapturedLog::new(Shape::Text);
        log.while_logging(|| {
            for n in 0..3_000 {
                let error =
                    if n == 1_234 { "a lease is missing".to_owned() } else { format!("no answer in {n} ms") };
                tracing::warn!(%error, "a transaction failed");
            }
        });
        assert_eq!(log.lines().len(), 2);
        assert_eq!(log.lines().iter().filter(|line| line.contains("a lease is missing")).count(), 1);
        let log = CapturedLog::new(Shape::Text);
        log.while_logging(|| {
            for n in 0..3_000_u32 {
                let error: String = n.to_string().bytes().map(|byte| char::from(byte + 50)).collect();
                tracing::warn!(error, "a transaction failed");
            }
        });
        log.repetitions.write_all();
        let lines = log.lines();
        assert_eq!((lines.len(), times(&lines)), (RUNS_MAX + 2, 3_000), "{lines:?}");
    }

    #[test]
    fn while_more_come_one_a_second_is_written_and_after_a_quiet_second_the_next_is_a_first_again() {
        let log = CapturedLog::new(Shape::Text);
        log.while_logging(|| tracing::warn!("a place"));
        let key = log.repetitions.runs.lock().drain().next().unwrap().0;
        let (mut now, mut firsts) = (Instant::now(), 0);
        // Ten times a second, for a minute.
        for _ in 0..600 {
            if log.repetitions.is_first(&key, now) {
                firsts += 1;
            } else {
                log.repetitions.hold(&key, "line\n".to_owned(), now);
            }
            now += Duration::from_millis(100);
            log.repetitions.tick(now);
        }
        log.repetitions.tick(now + PAUSE);
        let held = log.lines().split_off(1);
        assert_eq!((firsts, held.len()), (1, 60), "{held:?}");
        assert_eq!(firsts + times(&held), 600);
        log.repetitions.tick(now + 2 * PAUSE);
        assert!(log.repetitions.runs.lock().is_empty());
        assert!(log.repetitions.is_first(&key, now + 2 * PAUSE));
    }

    /// A client's commands have no repetitions.
    #[test]
    fn without_repetitions_all_is_written() {
        let log = CapturedLog::new(Shape::Text);
        let format = Thinned { format: format().without_time().with_ansi(false), repetitions: None };
        let layer = tracing_subscriber::fmt::layer().event_format(format).with_writer(log.lines.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            for n in 0..30 {
                tracing::warn!(n, "a request failed");
            }
        });
        assert_eq!(log.lines().len(), 30);
    }

    #[test]
    fn a_document_stays_one() {
        let line = reported(Shape::Json, "{\"fields\":{\"message\":\"x\"}}\n", 7);
        let document: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(document["times"].as_u64(), Some(7));
    }
}
