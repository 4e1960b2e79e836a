//! `punctual serve` and `punctual migrate`: the engine on its store, with the API in front.

use crate::{
    audited::{Audited, audited},
    backends::{self, RunningEngine},
    config::{SettingArgs, Settings, StoreLocation},
    descriptors, logs,
    output::{self, Form},
    panics,
    signals::Signals,
};
use anyhow::{Context, Result, bail};
use clap::Args;
use punctual_server::{LogFilters, ServerOptions, serve};
use std::{io, net::SocketAddr, process::ExitCode};
use tokio::net::TcpListener;

/// Run the engine and its API; without settings, the store is an SQLite file
#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    settings: SettingArgs,
    /// Print the first lines as one JSON document
    #[arg(long)]
    json: bool,
}

/// Apply pending migrations to the store's schema, and list what was applied
#[derive(Args, Debug)]
pub(crate) struct MigrateArgs {
    #[command(flatten)]
    settings: SettingArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: ServeArgs) -> Result<ExitCode> {
    let settings = Settings::from_layers(&args.settings.layers()?)?;
    logs::start_for_engine(&settings);
    panics::watch();
    descriptors::raise();
    // Before the port is open, so that a process that finds it open can also stop this one in an orderly way.
    let signals = Signals::watch()?;
    let listener = bind(settings.listening.address).await?;
    let address = listener.local_addr()?;
    let running = started(&settings).await?;
    let with_token = running.engine.access_is_required();
    let origin = origin(settings.listening.scheme(), address);
    announce(&origin, with_token, &settings.place, Form::json_if(args.json))?;
    tracing::info!(%address, store = settings.place.shown(), "serving");
    let served = serve(listener, running.engine.clone(), options(&settings, &running), signals.stop()).await;
    running.stop().await?;
    served.context("the API ended")?;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// A running engine, if it may listen on the configured address. Without tokens only this machine is served; the
/// store knows whether there are tokens.
pub(crate) async fn started(settings: &Settings) -> Result<RunningEngine> {
    // A store that is not there has no tokens, and is not made only to find that out.
    if settings.engine.admin_token.is_none() && settings.place.is_new_file() {
        settings.listening.may_listen(false)?;
    }
    let running = RunningEngine::start(settings).await?;
    let refused = match running.engine.access_is_known().await {
        Ok(()) => settings.listening.may_listen(running.engine.access_is_required()).err().map(Into::into),
        Err(error) => Some(anyhow::Error::new(error).context("the tokens cannot be read")),
    };
    let Some(refused) = refused else { return Ok(running) };
    running.stop().await?;
    Err(refused)
}

pub(crate) fn options(settings: &Settings, running: &RunningEngine) -> ServerOptions {
    settings.listening.apply(ServerOptions {
        batch_body_max_bytes: settings.payloads.batch_body_max_bytes,
        payload_max_bytes: settings.payloads.payload_max_bytes,
        payload_advice: settings.payloads.advice(),
        schedules: Some(running.planner.clone()),
        workflows: Some(running.workflows.clone()),
        bulk: Some(running.bulk.clone()),
        cluster: Some(running.cluster.clone()),
        inboxes: running.inboxes.clone(),
        webhooks: Some(running.webhooks.clone()),
        traces: running.traces.clone(),
        log: Some(LogFilters::new(Box::new(logs::ProcessLog), settings.log_filter.clone())),
        ..ServerOptions::default()
    })
}

/// The address of the server, `https://127.0.0.1:7450`.
pub(crate) fn origin(scheme: &str, address: SocketAddr) -> String {
    format!("{scheme}://{address}")
}

pub(crate) async fn bind(address: SocketAddr) -> Result<TcpListener> {
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let free = SocketAddr::new(address.ip(), address.port().checked_add(1).unwrap_or(0));
            bail!(
                "port {} is in use (on {}); stop what listens there, or choose another port: --listen {free}, \
                 or PUNCTUAL_LISTEN={free}",
                address.port(),
                address.ip(),
            )
        }
        Err(error) => Err(error).with_context(|| format!("cannot listen on {address}")),
    }
}

fn announce(origin: &str, with_token: bool, place: &StoreLocation, form: Form) -> Result<()> {
    let store = match place {
        StoreLocation::Embedded { sqlite_path } => std::path::absolute(sqlite_path)?.display().to_string(),
        StoreLocation::Shared(_) => place.shown(),
    };
    if form == Form::Json {
        return Ok(output::json(&serde_json::json!({
            "api": format!("{origin}/v1"), "docs": format!("{origin}/docs"),
            "metrics": format!("{origin}/metrics"), "data": store, "pid": std::process::id(),
        }))?);
    }
    places(origin, &store);
    try_this(origin, with_token, "hello", 1_500);
    output::line("Stop with Ctrl-C.");
    Ok(())
}

/// Prints the addresses of everything.
pub(crate) fn places(origin: &str, data: &str) {
    output::line(&format!("punctual {}", env!("CARGO_PKG_VERSION")));
    output::facts(&[
        ("Console", format!("{origin}/console")),
        ("API", format!("{origin}/v1")),
        ("Docs", format!("{origin}/docs")),
        ("Metrics", format!("{origin}/metrics")),
        ("Data", data.to_owned()),
    ]);
}

/// One command to copy.
pub(crate) fn try_this(origin: &str, with_token: bool, queue: &str, delay_ms: u32) {
    let token = if with_token { " -H \"authorization: Bearer $PUNCTUAL_TOKEN\"" } else { "" };
    output::line("Try:");
    output::line(&format!(
        "  curl -s {origin}/v1/tasks{token} -H 'content-type: application/json' \
         -d '{{\"queue\":\"{queue}\",\"delay_ms\":{delay_ms},\"payload\":\"hello\"}}'"
    ));
}

/// Writes the audit entry after the change, unlike for every other change: the migration may have created the audit
/// itself.
async fn note_in_the_audit(place: &StoreLocation, applied: &[String]) -> Result<()> {
    let store = backends::open_store(place).await?;
    let after = Some(serde_json::json!({ "applied": applied }).to_string());
    let work = async { Ok(Audited { value: (), before: None, after }) };
    let noted = audited(store.store(), "migrate", "migrate", work).await;
    store.close().await?;
    noted.context("the schema is up to date")
}

pub(crate) async fn migrate(args: MigrateArgs) -> Result<ExitCode> {
    let settings = Settings::from_layers(&args.settings.layers()?)?;
    logs::start(&settings);
    let applied = backends::migrate(&settings.place).await?;
    let store = settings.place.shown();
    if !applied.is_empty() {
        note_in_the_audit(&settings.place, &applied).await?;
    }
    if args.json {
        output::json(&serde_json::json!({ "store": store, "applied": applied }))?;
    } else if applied.is_empty() {
        output::line(&format!("{store} is up to date"));
    } else {
        output::line(&format!("{store}: applied {}", applied.join(", ")));
    }
    Ok(ExitCode::SUCCESS)
}
