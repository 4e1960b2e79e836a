//! Listens, serves, and stops gracefully: no new connection, long polls end at once, the rest has `drain_timeout`.

use crate::{
    app::{App, Shared},
    listener::{self, Certificates, ENDS_SOON_MS, Reloaded, reported},
    options::ServerOptions,
    router,
};
use futures_util::future::BoxFuture;
use punctual_engine::Engine;
use std::{sync::Arc, time::Duration};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

/// A loop that broke is begun again after this.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
const DAY_MS: i64 = 24 * 3_600_000;

/// Serves until `shutdown` is cancelled and what was under way is answered: HTTP/1.1 and HTTP/2, with TLS (ALPN) when the
/// options name certificates. The engine must still run when this returns: it is stopped after its last caller.
///
/// # Errors
/// When the certificates cannot be used; [`crate::TlsFiles::check`] says it beforehand.
pub fn serve(
    listener: TcpListener,
    engine: Engine,
    options: ServerOptions,
    shutdown: CancellationToken,
) -> BoxFuture<'static, std::io::Result<()>> {
    Box::pin(async move {
        let drain_timeout = options.drain_timeout;
        let certificates = options.listener.tls.clone().map(Certificates::load).transpose();
        let certificates = certificates.map_err(|error| std::io::Error::other(reported(&error)))?;
        let app = App::new(engine, options, router::needs(), certificates.clone(), shutdown.clone());
        // Ends with this.
        let mut beside = JoinSet::new();
        if let Some(certificates) = certificates {
            beside.spawn(keep_current(Arc::clone(&app), certificates));
        }
        listener::run(listener, &app, router::routes(&app), &shutdown).await;
        app.detached.close();
        if tokio::time::timeout(drain_timeout, app.detached.wait()).await.is_err() {
            tracing::warn!("requests with an idempotency key are still under way");
        }
        Ok(())
    })
}

/// Checks the files of the certificates at an interval, also after a check that panicked.
async fn keep_current(app: Shared, certificates: Arc<Certificates>) {
    let mut warned_at = None;
    loop {
        tokio::time::sleep(app.options.listener.tls_look_every).await;
        let (looked_at, now) = (Arc::clone(&certificates), app.engine.now());
        // Files may be on a disk that is unavailable.
        match tokio::task::spawn_blocking(move || looked_at.reload(now)).await {
            Ok(Reloaded::Unchanged) => {}
            Ok(Reloaded::Changed) => tracing::info!("new certificates are in use"),
            Ok(Reloaded::Failed(error)) => {
                let error = reported(&error);
                tracing::error!(error, "the new certificates cannot be used, and the old ones still are");
            }
            Err(error) => {
                tracing::error!(%error, "the look at the certificates broke off");
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        }
        let rest_ms = certificates.expires_at().since(now);
        if rest_ms < ENDS_SOON_MS && warned_at.is_none_or(|warned_at| now.since(warned_at) > DAY_MS) {
            warned_at = Some(now);
            tracing::warn!(days = rest_ms / DAY_MS, "the server's certificate ends soon; replace its files");
        }
    }
}
