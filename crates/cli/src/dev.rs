//! `punctual dev`: the same engine and API as `serve`, with a demo on top that shows, and checks, what it promises.
//! Reads no file and no environment: it must never touch the data of a server that is set up for work.

mod demo;
mod insert;
mod scenery;
mod screen;
mod tally;

use crate::{
    config::{Layers, Settings, keys},
    connect::TRIES_OF_ONE_CALL,
    descriptors, duration, logs, output,
    output::Form,
    panics, serve,
    signals::Signals,
};
use anyhow::{Context, Result, bail};
use clap::Args;
use demo::DemoPlan;
use punctual_domain::access::Permission;
use punctual_engine::{Engine, access::Identified};
use punctual_sdk::Client;
use screen::Screen;
use std::{net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};
use tally::Summary;
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

/// Run a demo: engine, API, and a stream of demo tasks whose lateness is shown live
///
/// An executor in this process runs the tasks of the queue `demo`, also those that you insert, over HTTP. The queues `demo-…`
/// have schedules, workflows, limits, failures and dead letters, as examples for the console. With --for the command stops
/// after that time; its exit code is 0 only if every demo task ran exactly once and none ran early.
#[derive(Args, Debug)]
pub(crate) struct DevArgs {
    /// Stop after this time, with a summary
    #[arg(long = "for", value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    run_for: Option<Duration>,
    /// Demo tasks per second; 0 for none
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    rate: u32,
    /// Address and port; if the port is in use, the next free one
    #[arg(long, default_value = "127.0.0.1:7450", value_name = "ADDRESS")]
    listen: String,
    /// Data directory, kept between runs
    #[arg(long, default_value = "./punctual-data/dev", value_name = "DIR", conflicts_with = "ephemeral")]
    data: String,
    /// Use a temporary data directory, removed at the end
    #[arg(long)]
    ephemeral: bool,
    /// Log filter, such as info,punctual_engine=debug
    #[arg(long, default_value = "warn", value_name = "FILTER")]
    log_filter: String,
    /// Print the first lines, a status every second and the summary as JSON
    #[arg(long)]
    json: bool,
}

/// The retention of the demo's successes, so that a demo that runs for days stays small.
const KEEP_SUCCEEDED_MS: i64 = 3_600_000;
/// Ports that are tried after the one that is in use.
const PORTS_TRIED: u16 = 50;

pub(crate) async fn run(args: DevArgs) -> Result<ExitCode> {
    // Removed when it is dropped, also when this ends early.
    let temporary =
        args.ephemeral.then(tempfile::tempdir).transpose().context("no directory for the data")?;
    let data =
        temporary.as_ref().map_or_else(|| PathBuf::from(&args.data), |temporary| temporary.path().to_owned());
    let settings = settings(&args, &data)?;
    logs::start_for_engine(&settings);
    panics::watch();
    descriptors::raise();
    let signals = Signals::watch()?;
    let (listener, is_other_port) = bind(settings.listening.address).await?;
    let address = listener.local_addr()?;
    let running = serve::started(&settings).await?;
    if let Err(refused) = demo_is_let_in(&running.engine) {
        running.stop().await?;
        return Err(refused);
    }
    let in_use = is_other_port.then_some(settings.listening.address);
    announce(&args, address, in_use, &data, running.engine.access_is_required())?;
    let server_stop = CancellationToken::new();
    let mut server = JoinSet::new();
    let api = punctual_server::serve(
        listener,
        running.engine.clone(),
        serve::options(&settings, &running),
        server_stop.clone(),
    );
    server.spawn(api);
    let summary = Box::pin(show(&args, address, signals.stop())).await;
    server_stop.cancel();
    let served = server.join_next().await;
    running.stop().await?;
    if let Some(served) = served {
        served?.context("the API ended")?;
    }
    conclude(&summary?, &args)
}

/// The demo calls like anybody: where the store has tokens it needs one, that of `PUNCTUAL_TOKEN`.
fn demo_is_let_in(engine: &Engine) -> Result<()> {
    const WAY_OUT: &str = "the store in --data has tokens, so the demo needs one: set PUNCTUAL_TOKEN to a token that may insert \
                           and execute, or take another directory, or --ephemeral";
    let token = std::env::var("PUNCTUAL_TOKEN").ok().filter(|text| !text.is_empty());
    match engine.identify(token.as_deref()) {
        Identified::Anyone => Ok(()),
        Identified::As(admitted) => {
            let may =
                |permission| admitted.identity().is_some_and(|identity| identity.grant.permits(permission));
            if may(Permission::Insert) && may(Permission::Execute) { Ok(()) } else { bail!(WAY_OUT) }
        }
        Identified::Refused(reason) if token.is_some() => bail!("{WAY_OUT} ({reason})"),
        Identified::Refused(_) => bail!(WAY_OUT),
    }
}

fn settings(args: &DevArgs, data: &std::path::Path) -> Result<Settings> {
    let mut layers = Layers::defaults();
    layers.default_to(keys::SUCCEEDED_MS, KEEP_SUCCEEDED_MS.to_string());
    layers.flag("--data", keys::DATA, data.to_string_lossy().into_owned())?;
    layers.flag("--listen", keys::LISTEN, args.listen.clone())?;
    layers.flag("--log-filter", keys::LOG_FILTER, args.log_filter.clone())?;
    Ok(Settings::from_layers(&layers)?)
}

/// Binds the requested port, or (true) one of the following ports.
async fn bind(wished: SocketAddr) -> Result<(TcpListener, bool)> {
    let refused = match serve::bind(wished).await {
        Ok(listener) => return Ok((listener, false)),
        Err(refused) => refused,
    };
    let behind = (1..=PORTS_TRIED).filter_map(|step| wished.port().checked_add(step));
    for port in behind {
        if let Ok(listener) = TcpListener::bind(SocketAddr::new(wished.ip(), port)).await {
            return Ok((listener, true));
        }
    }
    Err(refused)
}

fn announce(
    args: &DevArgs,
    address: SocketAddr,
    in_use: Option<SocketAddr>,
    data: &std::path::Path,
    with_token: bool,
) -> Result<()> {
    let data = std::path::absolute(data)?;
    let origin = serve::origin("http", address);
    if args.json {
        return Ok(output::json(&serde_json::json!({
            "console": format!("{origin}/console"), "api": format!("{origin}/v1"), "docs": format!("{origin}/docs"),
            "metrics": format!("{origin}/metrics"), "data": data, "port_in_use": in_use.map(|address| address.port()),
        }))?);
    }
    if let Some(in_use) = in_use {
        output::line(&format!("port {} is in use, taking {} instead", in_use.port(), address.port()));
    }
    let kept = if args.ephemeral { "removed at the end" } else { "kept between runs" };
    serve::places(&origin, &format!("{} ({kept})", data.display()));
    serve::try_this(&origin, with_token, "demo", 2_000);
    output::line("Stop with Ctrl-C.");
    Ok(())
}

async fn show(args: &DevArgs, address: SocketAddr, stop: CancellationToken) -> Result<Summary> {
    let client = Client::builder().url(serve::origin("http", address)).tries(TRIES_OF_ONE_CALL).build()?;
    let plan = DemoPlan { rate: args.rate, run_for: args.run_for };
    let scenery_stop = CancellationToken::new();
    let mut scenery = JoinSet::new();
    // Without a stream nothing is made that was not asked for.
    if args.rate > 0 {
        scenery.spawn(scenery::run(client.clone(), scenery_stop.clone()));
    }
    let summary = demo::run(client, plan, Screen::new(Form::json_if(args.json)), stop).await;
    scenery_stop.cancel();
    while let Some(ended) = scenery.join_next().await {
        ended?;
    }
    summary
}

fn conclude(summary: &Summary, args: &DevArgs) -> Result<ExitCode> {
    let broken = summary.broken();
    if args.json {
        output::json(&serde_json::json!({ "summary": summary, "broken": broken }))?;
    } else {
        output::line("");
        output::facts(&summary.facts());
        for promise in &broken {
            output::error_line(&format!("punctual: broken promise: {promise}"));
        }
        if broken.is_empty() && summary.inserted > 0 && summary.unfinished == 0 {
            output::line("every demo task ran exactly once, none early");
        }
    }
    Ok(if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
