//! Connections, long polls and certificates, as the listener counts them.

use super::{
    HTTP_ACCEPT_FAILURES, HTTP_BODIES, HTTP_CONNECTIONS, HTTP_CONNECTIONS_ACCEPTED, HTTP_CONNECTIONS_ENDED,
    HTTP_CONNECTIONS_MAX, HTTP_CONNECTIONS_REFUSED, HTTP_LONG_POLLS, HTTP_TLS_FAILURES, TLS_EXPIRES_AT,
    TLS_RELOAD_FAILURES, TLS_RELOADS,
    exposition::{Exposition, seconds},
};
use crate::{
    app::App,
    listener::{Reason, RefusedConnection, TlsFailure},
};
use std::sync::atomic::Ordering::Relaxed;

pub(super) fn render(out: &mut Exposition, app: &App) {
    let (connections, counts) = (&app.connections, &app.connections.counts);
    out.begin(&HTTP_CONNECTIONS);
    for (phase, open) in connections.phases() {
        out.sample(&HTTP_CONNECTIONS, &[phase.word()], open);
    }
    out.single(&HTTP_CONNECTIONS_MAX, connections.limits.connections_max());
    out.single(&HTTP_CONNECTIONS_ACCEPTED, counts.accepted.load(Relaxed));
    out.begin(&HTTP_CONNECTIONS_REFUSED);
    for why in RefusedConnection::ALL {
        out.sample(&HTTP_CONNECTIONS_REFUSED, &[why.word()], counts.refused(why));
    }
    out.begin(&HTTP_CONNECTIONS_ENDED);
    for why in Reason::ALL {
        out.sample(&HTTP_CONNECTIONS_ENDED, &[why.word()], counts.ended(why));
    }
    out.single(&HTTP_ACCEPT_FAILURES, counts.accept_failures.load(Relaxed));
    out.begin(&HTTP_TLS_FAILURES);
    for why in TlsFailure::ALL {
        out.sample(&HTTP_TLS_FAILURES, &[why.word()], app.tls.failed(why));
    }
    let waiting = connections.limits.long_polls_max.saturating_sub(app.long_polls.available_permits());
    out.single(&HTTP_LONG_POLLS, waiting);
    out.single(&HTTP_BODIES, app.bodies_bytes.load(Relaxed));
    certificates(out, app);
}

fn certificates(out: &mut Exposition, app: &App) {
    out.begin(&TLS_EXPIRES_AT);
    let certificates = app.certificates.as_ref();
    if let Some(certificate) = certificates {
        let expires_us = certificate.expires_at().0.unsigned_abs().saturating_mul(1_000);
        out.sample(&TLS_EXPIRES_AT, &[], seconds(expires_us));
    }
    out.single(&TLS_RELOADS, certificates.map_or(0, |certificates| certificates.reloads.load(Relaxed)));
    out.single(
        &TLS_RELOAD_FAILURES,
        certificates.map_or(0, |certificates| certificates.reload_failures.load(Relaxed)),
    );
}
