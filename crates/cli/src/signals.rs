//! SIGINT and SIGTERM: the first asks for an orderly end, the second ends at once.

use crate::output;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

/// The exit code that a shell reports for a program that was interrupted.
const INTERRUPTED: i32 = 130;

/// Watches for as long as it lives.
#[derive(Debug)]
pub(crate) struct Signals {
    stop: CancellationToken,
    _watch: JoinSet<()>,
}

impl Signals {
    pub(crate) fn watch() -> std::io::Result<Self> {
        let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let stop = CancellationToken::new();
        let mut watch = JoinSet::new();
        watch.spawn(obey(interrupt, terminate, stop.clone()));
        Ok(Self { stop, _watch: watch })
    }

    /// Cancelled by the first signal.
    pub(crate) fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }
}

async fn obey(mut interrupt: Signal, mut terminate: Signal, stop: CancellationToken) {
    next(&mut interrupt, &mut terminate).await;
    // It acts before anything is said of it.
    stop.cancel();
    tracing::info!("stopping; a second signal ends at once");
    next(&mut interrupt, &mut terminate).await;
    output::error_line("punctual: second signal, ending at once");
    std::process::exit(INTERRUPTED);
}

async fn next(interrupt: &mut Signal, terminate: &mut Signal) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
