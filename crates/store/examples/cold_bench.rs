//! What archiving and looking up cost: `cargo run --release -p punctual-store --example cold_bench -- [archives] [tasks]`.
//! Knows no database: tasks are made up, each with a payload of 200 bytes and five lines of history.

use punctual_domain::{
    history::Entry,
    name::{Name, QueueKey},
    place::{Partition, TaskRef},
    state::{Event, State},
    task::{Content, NewTask, Task, TaskResult},
    time::Millis,
};
use punctual_store::{ArchiveSource, ArchiveStorage, ArchiveStorageOptions, Written};
use std::time::Instant;

const DAY: i64 = 86_400_000;
const BATCH: i64 = 1_000;

fn task(id: i64) -> Task {
    let due_at = Millis(1_790_000_000_000 + id * 7);
    let queue = QueueKey { namespace: Name::default_namespace(), queue: name("orders") };
    let noise = noise_of(id);
    let payload = format!(
        r#"{{"order":{id},"customer":"{noise:016x}","items":[{}],"note":"{:0100x}"}}"#,
        noise % 1_000,
        u128::from(noise) * 77
    );
    let entry = |at, event, to, by: &str| Entry {
        at: Millis(due_at.0 + at),
        event,
        from: event.map(|_| State::Scheduled),
        to,
        attempt: 1,
        by: by.to_owned(),
        due_at: None,
        reason: None,
        error: None,
    };
    Task {
        place: TaskRef { partition: Partition(7), due_at, id },
        ask: NewTask {
            task_id: Some(noise.cast_signed()),
            payload: Content::json(payload),
            ..NewTask::new(queue, name("ship"), due_at)
        },
        state: State::Stopped,
        fence: 4,
        attempt: 1,
        due_at,
        fired_at: Some(Millis(due_at.0 + 1)),
        created_at: Millis(due_at.0 - DAY),
        updated_at: Millis(due_at.0 + DAY),
        keep_until: Some(Millis(due_at.0 + 2 * DAY)),
        lease: None,
        progress: None,
        log: None,
        result: Some(TaskResult { status_code: 0, status_msg: "shipped".to_owned(), content: None }),
        last_error: None,
        history: vec![
            entry(-DAY, None, State::Scheduled, "api"),
            entry(-900, Some(Event::Claim), State::Dispatching, "engine-1"),
            entry(3, Some(Event::Dispatch), State::Dispatched, "executor-17"),
            entry(40 + id % 100, Some(Event::Succeed), State::Succeeded, "executor-17"),
            entry(DAY, Some(Event::Retire), State::Stopped, "watcher"),
        ],
    }
}

/// Looks random, and is the same for the same number.
fn noise_of(id: i64) -> u64 {
    let cast_unsigned = id.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (cast_unsigned ^ (cast_unsigned >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 12
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a plain word is a name")
}

struct MadeUp {
    next: i64,
    end: i64,
}

impl ArchiveSource for MadeUp {
    async fn next(&mut self) -> Result<Vec<Task>, Box<dyn std::error::Error + Send + Sync>> {
        let from = self.next;
        self.next = (from + BATCH).min(self.end);
        Ok((from..self.next).map(task).collect())
    }

    async fn is_archived(&mut self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures the time that passes")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::print_stdout, reason = "a benchmark says what it measured")]
fn say(text: &str) {
    println!("{text}");
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn per(total: u128, count: i64) -> f64 {
    total as f64 / count as f64
}

#[tokio::main]
async fn main() -> Done {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<i64>());
    let archives = args.next().transpose()?.unwrap_or(100);
    let tasks = args.next().transpose()?.unwrap_or(100_000);
    let dir = tempfile::tempdir()?;
    let url = format!("file://{}", dir.path().display());
    write(&url, archives, tasks).await?;
    read(&url, archives, tasks).await
}

/// Any error ends a benchmark.
type Done = Result<(), Box<dyn std::error::Error>>;

async fn write(url: &str, archives: i64, tasks: i64) -> Done {
    let archive_storage = ArchiveStorage::open(url, ArchiveStorageOptions::default()).await?;
    let (began, mut all) = (now(), Written::default());
    for nth in 0..archives {
        let mut source = MadeUp { next: nth * tasks, end: (nth + 1) * tasks };
        let written = archive_storage.write_bucket(0, Millis(0), &mut source).await?;
        all.tasks += written.tasks;
        all.bytes += written.bytes;
    }
    let count = archives * tasks;
    let us = per(began.elapsed().as_micros(), count);
    let made = now();
    std::hint::black_box((0..count.min(100_000)).map(task).collect::<Vec<_>>());
    let made_us = per(made.elapsed().as_micros(), count.min(100_000));
    say(&format!(
        "write, sync, read back: {us:.2} us a task, {made_us:.2} of them to make it up; {:.0}/s",
        1e6 / us
    ));
    say(&format!("{:.1} bytes a task with its index", per(all.bytes.into(), count)));
    Ok(())
}

async fn read(url: &str, archives: i64, tasks: i64) -> Done {
    let began = now();
    let archive_storage = ArchiveStorage::open(url, ArchiveStorageOptions::default()).await?;
    say(&format!("open {archives} archives: {:.1} ms", per(began.elapsed().as_micros(), 1_000)));
    let namespace = Name::default_namespace();
    for (what, known) in
        [("unknown id, cold", false), ("unknown id, warm", false), ("known id", true), ("reference", true)]
    {
        let (pages, began, count) = (archive_storage.pages_read(), now(), 500);
        for nth in 0..count {
            let task = task((nth * 7_919 * tasks / 1_000) % (archives * tasks));
            let found = match what {
                "reference" => archive_storage.read(task.place).await?.into_iter().collect(),
                _ if known => archive_storage.find(None, &namespace, task.task_id(), 1).await?,
                _ => archive_storage.find(None, &namespace, -1 - nth, 1).await?,
            };
            assert_eq!(found.len(), usize::from(known), "{what}");
        }
        let read = i64::try_from(archive_storage.pages_read() - pages)?;
        let us = per(began.elapsed().as_micros(), count);
        say(&format!(
            "{what}: {us:.0} us, {:.2} pages of 16 KiB read",
            per(read.unsigned_abs().into(), count)
        ));
    }
    Ok(())
}
