//! The display while a file is loaded: a bar on stderr if that is a terminal, and each refused line.

use crate::output::{self, Form};
use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use punctual_protocol::Problem;
use std::io::IsTerminal;

#[derive(Debug)]
pub(super) struct ProgressDisplay {
    bar: ProgressBar,
    form: Form,
}

impl ProgressDisplay {
    /// Creates the display. `bytes` is the size of the file, if it is known.
    pub(super) fn new(bytes: Option<u64>, form: Form) -> Self {
        let bar = match bytes {
            _ if !std::io::stderr().is_terminal() => ProgressBar::hidden(),
            Some(bytes) => ProgressBar::new(bytes)
                .with_style(style("{bar:30} {percent:>3} %  {bytes}/{total_bytes}  {msg}  {eta} left")),
            None => ProgressBar::new_spinner().with_style(style("{spinner} {bytes}  {msg}")),
        };
        Self { bar, form }
    }

    /// Bytes that hold no task.
    pub(super) fn passed(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    pub(super) fn done(&self, bytes: u64, lines: u64) {
        self.bar.inc(bytes);
        let rate = lines as f64 / self.bar.elapsed().as_secs_f64().max(0.001);
        if !self.bar.is_hidden() {
            self.bar.set_message(format!("{} lines, {rate:.0}/s", output::count(lines)));
        }
    }

    pub(super) fn refused(&self, line: u64, problem: &Problem, reason: &str) -> Result<()> {
        self.bar.suspend(|| match self.form {
            Form::Json => output::json(&serde_json::json!({ "line": line, "error": problem })),
            Form::Text => {
                output::error_line(&format!("line {line}: {reason}"));
                Ok(())
            }
        })?;
        Ok(())
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
