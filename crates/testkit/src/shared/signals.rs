//! Signals between engines of one process. Whoever does not listen for long loses what is old, and is told so.

use async_trait::async_trait;
use punctual_contract::{Error, Signals, ownership::Signal};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};
use tokio::sync::{
    Mutex,
    broadcast::{self, error::RecvError},
};

/// Announcements that wait for the slowest listener.
pub const SIGNALS_KEPT: usize = 256;

/// Where the signals of all engines meet.
#[derive(Debug)]
pub struct SignalHub {
    sender: broadcast::Sender<Vec<Signal>>,
    is_mute: Arc<AtomicBool>,
}

impl Default for SignalHub {
    fn default() -> Self {
        Self { sender: broadcast::channel(SIGNALS_KEPT).0, is_mute: Arc::default() }
    }
}

/// One engine's end.
#[derive(Debug)]
pub struct MemorySignals {
    sender: broadcast::Sender<Vec<Signal>>,
    receiver: Mutex<broadcast::Receiver<Vec<Signal>>>,
    is_mute: Arc<AtomicBool>,
}

impl SignalHub {
    /// The end of one more engine.
    #[must_use]
    pub fn join(&self) -> Arc<MemorySignals> {
        Arc::new(MemorySignals {
            sender: self.sender.clone(),
            receiver: Mutex::new(self.sender.subscribe()),
            is_mute: Arc::clone(&self.is_mute),
        })
    }

    /// While it is mute, every announcement is lost, and nobody is told.
    pub fn set_mute(&self, is_mute: bool) {
        self.is_mute.store(is_mute, SeqCst);
    }
}

#[async_trait]
impl Signals for MemorySignals {
    async fn announce(&self, signals: Vec<Signal>) -> Result<(), Error> {
        if !signals.is_empty() && !self.is_mute.load(SeqCst) {
            // Nobody listens: then nobody needs to hear it.
            let _ = self.sender.send(signals);
        }
        Ok(())
    }

    async fn next(&self) -> Result<Vec<Signal>, Error> {
        let mut receiver = self.receiver.lock().await;
        match receiver.recv().await {
            Ok(mut signals) => {
                while let Ok(more) = receiver.try_recv() {
                    signals.extend(more);
                }
                Ok(signals)
            }
            Err(error @ (RecvError::Lagged(_) | RecvError::Closed)) => {
                Err(Error::may_have_happened("listen to signals", error))
            }
        }
    }
}
