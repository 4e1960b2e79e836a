//! Listens, serves, and stops gracefully: no new connection, long polls end at once, the rest has `drain_timeout`.

use crate::{app::App, options::ServerOptions, router};
use axum::serve::ListenerExt as _;
use punctual_engine::Engine;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Serves until `shutdown` is cancelled and what was under way is answered. HTTP/1.1 and HTTP/2 (prior knowledge).
/// The engine must still run when this returns: it is stopped after its last caller.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    engine: Engine,
    options: ServerOptions,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    let drain_timeout = options.drain_timeout;
    let app = App::new(engine, options, shutdown.clone());
    let listener = listener.tap_io(|stream| {
        // Nagle's algorithm would hold small answers back by up to 40 ms.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
    });
    let serving = axum::serve(listener, router::routes(&app))
        .with_graceful_shutdown(shutdown.clone().cancelled_owned())
        .into_future();
    let overdue = async {
        shutdown.cancelled().await;
        tokio::time::sleep(drain_timeout).await;
    };
    let served = tokio::select! {
        served = serving => served,
        () = overdue => {
            tracing::warn!("requests that are still under way are cut off");
            Ok(())
        }
    };
    app.detached.close();
    if tokio::time::timeout(drain_timeout, app.detached.wait()).await.is_err() {
        tracing::warn!("requests with an idempotency key are still under way");
    }
    served
}
