//! One command for one task: payload in, result out, and an end in good time.

use super::{capture::Capture, group::Group};
use punctual_protocol::Json;
use punctual_sdk::Task;
use std::{io, os::unix::process::ExitStatusExt, process::ExitStatus, process::Stdio, time::Duration};
use tokio::{io::AsyncWriteExt, process::ChildStdin, time::timeout};
use tokio_util::task::TaskTracker;

const RESULT_BYTES_MAX: usize = 64 << 10;
/// The maximum size of stderr; below that of a status message.
const SAID_BYTES_MAX: usize = 3 << 10;
/// `EX_TEMPFAIL` of sysexits.h.
const TRY_LATER: i32 = 75;
/// A child of the command may keep the pipes open after its end; what it prints later is not waited for.
const LAST_WORDS: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct Command {
    pub(super) line: String,
    /// The time from SIGTERM to SIGKILL.
    pub(super) kill_after: Duration,
    pub(super) stopping: TaskTracker,
}

#[derive(Debug, PartialEq)]
pub(super) enum CommandEnd {
    Succeeded { result: Option<Json> },
    TryLater { said: String },
    Failed { said: String },
}

impl Command {
    pub(super) async fn run(&self, task: &Task) -> io::Result<CommandEnd> {
        let mut group = Group::start(&mut self.prepare(task), self.kill_after, self.stopping.clone())?;
        let (stdin, stdout, stderr) = group.pipes();
        let payload = task.payload_bytes();
        let (mut result, mut said) = (Capture::beginning(RESULT_BYTES_MAX), Capture::end(SAID_BYTES_MAX));
        let status = {
            let pipes = async { tokio::join!(feed(stdin, &payload), result.read(stdout), said.read(stderr)) };
            tokio::pin!(pipes);
            tokio::select! {
                status = ended(&mut group, task) => {
                    // A process that still holds the pipes open is not waited for beyond this.
                    let _ = timeout(LAST_WORDS, pipes).await;
                    status?
                }
                _ = &mut pipes => ended(&mut group, task).await?,
            }
        };
        Ok(judge(status, task.is_cancelled(), &result.text(), &said.text()))
    }

    fn prepare(&self, task: &Task) -> tokio::process::Command {
        let mut command = tokio::process::Command::new("sh");
        command.arg("-c").arg(&self.line);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
            .env("PUNCTUAL_REF", task.reference())
            .env("PUNCTUAL_TASK_ID", task.task_id().to_string())
            .env("PUNCTUAL_TASK_VERSION", task.task_version().to_string())
            .env("PUNCTUAL_QUEUE", task.queue())
            .env("PUNCTUAL_KIND", task.kind())
            .env("PUNCTUAL_ATTEMPT", task.attempt().to_string())
            .env("PUNCTUAL_MAX_ATTEMPTS", task.max_attempts().to_string())
            .env("PUNCTUAL_EXECUTE_AT_MS", task.execute_at_ms().to_string());
        if let Some(traceparent) = task.traceparent() {
            command.env("TRACEPARENT", traceparent);
        }
        command
    }
}

/// Waits for the end, by itself or because the task is requested to stop.
async fn ended(group: &mut Group, task: &Task) -> io::Result<ExitStatus> {
    tokio::select! {
        status = group.wait() => return status,
        () = task.cancelled() => {}
    }
    group.end().await
}

/// A command need not read its payload.
async fn feed(stdin: Option<ChildStdin>, payload: &[u8]) {
    if let Some(mut stdin) = stdin
        && let Err(error) = stdin.write_all(payload).await
    {
        tracing::debug!(%error, "the command did not read its payload to the end");
    }
}

fn judge(status: ExitStatus, is_cancelled: bool, result: &str, said: &str) -> CommandEnd {
    let with = |what: String| if said.is_empty() { what } else { format!("{what}: {said}") };
    match (status.code(), status.signal()) {
        (Some(0), _) => CommandEnd::Succeeded { result: as_json(result) },
        _ if is_cancelled => CommandEnd::Failed { said: with("stopped on request".to_owned()) },
        (Some(TRY_LATER), _) => CommandEnd::TryLater { said: with(format!("exit code {TRY_LATER}")) },
        (Some(code), _) => CommandEnd::Failed { said: with(format!("exit code {code}")) },
        (None, signal) => {
            CommandEnd::Failed { said: with(format!("ended by signal {}", signal.unwrap_or(0))) }
        }
    }
}

/// JSON as it is, any other text as a string, nothing as none. What the server would refuse (`1e400`, half of a surrogate
/// pair, nested too deep) is a text too: the command has done its work, and its task must not be dead for what it printed.
fn as_json(result: &str) -> Option<Json> {
    if result.is_empty() {
        return None;
    }
    let json = Json::from_text(result.trim().to_owned()).ok().filter(Json::is_readable);
    json.or_else(|| Json::of(result).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_protocol::{LeasedTask, Outcome, OutcomeKind};
    use punctual_sdk::Control;
    use punctual_testkit::patience::HANG_LIMIT;

    fn task(payload: &str) -> (Task, Control) {
        let control = Control::default();
        let payload = Some(Json::from_text(payload.to_owned()).unwrap());
        let leased =
            LeasedTask { payload, task_id: 7, attempt: 2, kind: "mail".into(), ..LeasedTask::default() };
        (Task::new(leased, control.clone()), control)
    }

    fn command(line: &str) -> Command {
        Command {
            line: line.to_owned(),
            kill_after: Duration::from_millis(100),
            stopping: TaskTracker::new(),
        }
    }

    async fn ends(line: &str) -> CommandEnd {
        command(line).run(&task("{\"a\": 1}").0).await.unwrap()
    }

    fn succeeded(json: &str) -> CommandEnd {
        CommandEnd::Succeeded { result: Some(Json::from_text(json.to_owned()).unwrap()) }
    }

    #[tokio::test]
    async fn the_payload_comes_on_stdin_and_stdout_is_the_result() {
        assert_eq!(ends("cat").await, succeeded("{\"a\": 1}"));
        assert_eq!(ends("echo hello").await, succeeded("\"hello\""));
        assert_eq!(ends("true").await, CommandEnd::Succeeded { result: None });
    }

    #[test]
    fn json_that_no_server_takes_is_kept_as_text() {
        let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
        for text in ["1e400", r#"{"a":"\ud800"}"#, &deep, "{", "one\u{1b}two"] {
            let result = as_json(text).unwrap();
            assert_eq!(result, Json::of(text).unwrap(), "{text}");
            let outcome = Outcome { result: Some(result), ..Outcome::new("r", "t", OutcomeKind::Succeeded) };
            assert_eq!(outcome.check(), Ok(()), "{text}");
        }
        assert_eq!(as_json(" {\"a\": 1e40} ").unwrap().get(), "{\"a\": 1e40}");
    }

    #[tokio::test]
    async fn the_task_stands_in_the_environment() {
        assert_eq!(
            ends("echo \"$PUNCTUAL_TASK_ID $PUNCTUAL_ATTEMPT $PUNCTUAL_KIND\"").await,
            succeeded("\"7 2 mail\"")
        );
    }

    #[tokio::test]
    async fn exit_codes_are_told_with_the_end_of_stderr() {
        assert_eq!(
            ends("echo why >&2; exit 3").await,
            CommandEnd::Failed { said: "exit code 3: why".into() }
        );
        assert_eq!(ends("exit 75").await, CommandEnd::TryLater { said: "exit code 75".into() });
        assert_eq!(ends("kill -9 $$").await, CommandEnd::Failed { said: "ended by signal 9".into() });
    }

    #[tokio::test]
    async fn large_payloads_and_results_do_not_block_and_are_bounded() {
        let payload = format!("\"{}\"", "x".repeat(1 << 20));
        let CommandEnd::Succeeded { result: Some(result) } =
            command("cat").run(&task(&payload).0).await.unwrap()
        else {
            panic!("cat failed");
        };
        assert!(
            result.get().contains("[cut after 65536 bytes]") && result.get().len() < RESULT_BYTES_MAX + 100
        );
        assert_eq!(
            command("true").run(&task(&payload).0).await.unwrap(),
            CommandEnd::Succeeded { result: None }
        );
    }

    /// The child ends when this test lets it, and has the pipes open until then.
    #[tokio::test]
    async fn a_child_that_stays_behind_does_not_hold_the_result_up() {
        let directory = tempfile::tempdir().unwrap();
        let go = directory.path().join("go");
        let line = format!("(until test -e {}; do sleep 0.05; done) & echo done", go.display());
        let ended = timeout(HANG_LIMIT, ends(&line)).await;
        std::fs::write(go, "").unwrap();
        assert_eq!(ended.expect("its end is not waited for"), succeeded("\"done\""));
    }

    #[tokio::test]
    async fn a_command_that_is_asked_to_stop_gets_sigterm_and_then_sigkill() {
        for line in ["sleep 60", "trap '' TERM; sleep 60; sleep 60"] {
            let (task, control) = task("null");
            control.cancel();
            let ended = command(line).run(&task).await.unwrap();
            assert_eq!(ended, CommandEnd::Failed { said: "stopped on request".into() }, "{line}");
        }
    }

    #[tokio::test]
    async fn a_command_whose_task_is_lost_ends_with_its_children() {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("alive");
        // A child of the command holds the writing end of the pipe: it is closed when that child has ended.
        let line = format!("mkfifo {0}; (exec sleep 60 > {0}) & wait", fifo.display());
        let command = command(&line);
        let (task, _control) = task("null");
        let mut running = Box::pin(command.run(&task));
        let opened = tokio::task::spawn_blocking(move || {
            while !fifo.exists() {
                std::thread::yield_now();
            }
            std::fs::File::open(fifo).unwrap()
        });
        let mut alive = tokio::select! {
            ended = &mut running => panic!("{ended:?}"),
            opened = opened => opened.unwrap(),
        };
        drop(running);
        command.stopping.close();
        command.stopping.wait().await;
        let to_its_end =
            tokio::task::spawn_blocking(move || io::Read::read_to_end(&mut alive, &mut Vec::new()));
        assert_eq!(timeout(HANG_LIMIT, to_its_end).await.unwrap().unwrap().unwrap(), 0);
    }
}
