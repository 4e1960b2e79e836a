//! The display while the demo runs. On a terminal: a line for some of the fired tasks (never more than can be read)
//! above a live status line. Elsewhere: one status line a second.

use super::{
    demo::Demo,
    tally::{Ran, Summary, per_second},
};
use crate::output::{self, Form};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{io::IsTerminal, sync::Arc, time::Duration};
use tokio::{
    sync::mpsc::UnboundedReceiver,
    time::{Instant, MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

/// Lines about single demo tasks.
const LINES_A_SECOND: u32 = 8;
const STATUS_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) enum Fired {
    Demo {
        number: u64,
        ran: Ran,
    },
    /// Inserted by the user.
    Users {
        reference: String,
        kind: String,
        late_us: i64,
    },
}

#[derive(Debug)]
pub(super) struct Screen {
    form: Form,
    /// `None` if this is not a terminal.
    live: Option<ProgressBar>,
    next_line_at: Instant,
    executed_before: u64,
    status_before: Instant,
}

impl Screen {
    pub(super) fn new(form: Form) -> Self {
        let live = (form == Form::Text && std::io::stdout().is_terminal()).then(|| {
            let style =
                ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout()).with_style(style)
        });
        let now = Instant::now();
        Self { form, live, next_line_at: now, executed_before: 0, status_before: now }
    }

    /// Displays until `stop`.
    pub(super) async fn run(
        mut self,
        demo: Arc<Demo>,
        mut fired: UnboundedReceiver<Fired>,
        stop: CancellationToken,
    ) {
        let mut status = interval(STATUS_EVERY);
        status.set_missed_tick_behavior(MissedTickBehavior::Skip);
        status.tick().await;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                _ = status.tick() => self.status(&demo),
                Some(fired) = fired.recv() => self.fired(&fired),
            }
        }
        if let Some(live) = &self.live {
            live.finish_and_clear();
        }
    }

    fn fired(&mut self, fired: &Fired) {
        match fired {
            Fired::Users { reference, kind, late_us } => {
                self.line(&format!("  yours {reference} ({kind})  {}", lateness(*late_us)));
            }
            Fired::Demo { number, ran } => {
                let now = Instant::now();
                let is_odd = !ran.is_first || ran.late_us < 0;
                if is_odd || (self.live.is_some() && now >= self.next_line_at) {
                    self.next_line_at = now + Duration::from_secs(1) / LINES_A_SECOND;
                    let again = if ran.is_first { "" } else { "  AGAIN" };
                    self.line(&format!("  demo {number:>7}  {}{again}", lateness(ran.late_us)));
                }
            }
        }
    }

    fn line(&self, text: &str) {
        match &self.live {
            Some(live) => live.println(output::clean::line(text)),
            None if self.form == Form::Text => output::line(text),
            None => {}
        }
    }

    fn status(&mut self, demo: &Demo) {
        let now = Instant::now();
        let summary = demo.summary(demo.begun.elapsed(), false);
        let since = (now - self.status_before).as_secs_f64();
        let rate = per_second(summary.executed - self.executed_before, since);
        (self.executed_before, self.status_before) = (summary.executed, now);
        match (&self.live, self.form) {
            (Some(live), _) => live.set_message(sentence(&summary, rate)),
            (None, Form::Text) => output::line(&sentence(&summary, rate)),
            (None, Form::Json) => {
                if let Err(error) = output::json(&serde_json::json!({ "status": summary, "rate_now": rate }))
                {
                    tracing::warn!(%error, "the status cannot be written");
                }
            }
        }
    }
}

fn lateness(late_us: i64) -> String {
    let ms = Duration::from_micros(late_us.unsigned_abs()).as_secs_f64() * 1_000.0;
    if late_us < 0 { format!("{ms:.1} ms EARLY") } else { format!("{ms:.1} ms late") }
}

fn sentence(summary: &Summary, rate: f64) -> String {
    format!(
        "{:>5.0} s  {} ran, {rate:.0}/s  lateness p50 {:.1} p99 {:.1} max {:.1} ms  early {} lost {} duplicates {}",
        summary.took_s,
        output::count(summary.executed),
        summary.p50_ms,
        summary.p99_ms,
        summary.max_ms,
        summary.early,
        summary.lost,
        summary.duplicates,
    )
}
