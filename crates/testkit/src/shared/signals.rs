//! Signals between engines of one process. A receiver that does not listen for long loses old signals, and
//! gets an error.

use async_trait::async_trait;
use punctual_contract::{Error, Signals, ownership::Signal};
use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
};
use tokio::sync::{
    Mutex,
    broadcast::{self, error::RecvError},
};

/// Announcements that wait for the slowest listener.
pub const SIGNALS_KEPT: usize = 256;

/// The hub for the signals of all engines.
#[derive(Debug)]
pub struct SignalHub {
    sender: broadcast::Sender<Vec<Signal>>,
    is_mute: Arc<AtomicBool>,
    listening: Listening,
    unheard: Arc<AtomicUsize>,
}

/// Names of the engines that receive signals for them alone.
type Listening = Arc<parking_lot::Mutex<Vec<String>>>;

impl Default for SignalHub {
    fn default() -> Self {
        Self {
            sender: broadcast::channel(SIGNALS_KEPT).0,
            is_mute: Arc::default(),
            listening: Arc::default(),
            unheard: Arc::default(),
        }
    }
}

/// One engine's end.
#[derive(Debug)]
pub struct MemorySignals {
    sender: broadcast::Sender<Vec<Signal>>,
    receiver: Mutex<broadcast::Receiver<Vec<Signal>>>,
    is_mute: Arc<AtomicBool>,
    listening: Listening,
    own_name: OnceLock<String>,
    unheard: Arc<AtomicUsize>,
}

impl SignalHub {
    /// The end of one more engine.
    #[must_use]
    pub fn join(&self) -> Arc<MemorySignals> {
        Arc::new(MemorySignals {
            sender: self.sender.clone(),
            receiver: Mutex::new(self.sender.subscribe()),
            is_mute: Arc::clone(&self.is_mute),
            listening: Arc::clone(&self.listening),
            own_name: OnceLock::new(),
            unheard: Arc::clone(&self.unheard),
        })
    }

    /// Signals for engines that did not listen.
    #[must_use]
    pub fn unheard(&self) -> usize {
        self.unheard.load(SeqCst)
    }

    /// While it is mute, every announcement is lost without an error.
    pub fn set_mute(&self, is_mute: bool) {
        self.is_mute.store(is_mute, SeqCst);
    }
}

impl MemorySignals {
    fn listens_no_more(&self) {
        let mut listening = self.listening.lock();
        let own = listening.iter().position(|name| self.own_name.get() == Some(name));
        if let Some(nth) = own {
            listening.swap_remove(nth);
        }
    }
}

impl Drop for MemorySignals {
    fn drop(&mut self) {
        self.listens_no_more();
    }
}

#[async_trait]
impl Signals for MemorySignals {
    async fn announce(&self, mut signals: Vec<Signal>) -> Result<Vec<String>, Error> {
        if self.is_mute.load(SeqCst) {
            return Ok(Vec::new());
        }
        let mut unheard = Vec::new();
        signals.retain(|signal| {
            let Some(engine) = signal.addressee() else { return true };
            let is_heard = self.listening.lock().iter().any(|name| name == engine);
            if !is_heard {
                unheard.push(engine.to_owned());
            }
            is_heard
        });
        self.unheard.fetch_add(unheard.len(), SeqCst);
        if !signals.is_empty() {
            // An error says that there are no listeners: then there is nothing to deliver.
            let _ = self.sender.send(signals);
        }
        Ok(unheard)
    }

    fn belongs_to(&self, engine: &str) {
        if self.own_name.set(engine.to_owned()).is_ok() {
            self.listening.lock().push(engine.to_owned());
        }
    }

    async fn close(&self) {
        self.listens_no_more();
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
