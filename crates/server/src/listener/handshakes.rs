//! Counts failed TLS handshakes by reason. Counts only: the connection does the handshake.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Why no connection came of a TLS handshake; a label of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsFailure {
    /// Plain HTTP was spoken.
    Plain,
    Timeout,
    /// One of the two rejected the negotiated parameters, or a certificate.
    Handshake,
}

impl TlsFailure {
    pub(crate) const ALL: [Self; 3] = [Self::Plain, Self::Timeout, Self::Handshake];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Timeout => "timeout",
            Self::Handshake => "handshake",
        }
    }
}

/// Failed handshakes since the process began.
#[derive(Debug, Default)]
pub(crate) struct TlsMeters([AtomicU64; TlsFailure::ALL.len()]);

impl TlsMeters {
    pub(super) fn fail(&self, why: TlsFailure) {
        if let Some(tls_meter) = self.0.get(why as usize) {
            tls_meter.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn failed(&self, why: TlsFailure) -> u64 {
        self.0.get(why as usize).map_or(0, |tls_meter| tls_meter.load(Relaxed))
    }
}
