//! The binary `punctual`: the only place where backends meet the engine, where settings are read, and where the wall
//! clock is. Holds no rule of a task's life.

mod args;
mod config;
mod connect;
mod duration;
mod fields;
mod flags;
mod look;
mod other_engines;
mod output;
mod say;
mod spans;
mod times;
mod usage;

mod archive;
mod audit;
mod audited;
mod backends;
mod clock;
mod descriptors;
mod doctor;
mod durability;
mod log;
mod logs;
mod panics;
mod serve;
mod signals;

mod bulk;
mod cluster;
mod dead;
mod dev;
mod executor;
mod inbox;
mod journal;
mod limit;
mod man;
mod namespace;
mod openapi;
mod profile;
mod queue;
mod schedule;
mod shard;
mod task;
mod token;
mod work;
mod workflow;

use args::{Cli, Command};
use clap::CommandFactory as _;
use std::process::ExitCode;

/// Gives memory of one thread back to another without a lock, and keeps freed pages for the next burst.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Before anything that speaks TLS: the first one that is installed is that of the process, and none is there yet.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = usage::parsed();
    look::begin(cli.look);
    // However this ends, what was said is written, if it can be.
    let _flushed = logs::FlushedAtEnd;
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return say::failed(&anyhow::Error::new(error).context("the runtime cannot start")),
    };
    let ended = runtime.block_on(Box::pin(run(cli.command)));
    // A read of stdin that never ends must not hold the process.
    runtime.shutdown_background();
    ended.unwrap_or_else(|error| say::failed(&error))
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Dev(args) => dev::run(args).await,
        Command::Serve(args) => serve::run(args).await,
        Command::Task(command) => task::run(command).await,
        Command::Dead(command) => dead::run(command).await,
        Command::Executor(command) => executor::run(command).await,
        Command::Queue(command) => queue::run(command).await,
        Command::Namespace(command) => namespace::run(command).await,
        Command::Limit(command) => limit::run(command).await,
        Command::Inbox(command) => inbox::run(command).await,
        Command::Profile(command) => profile::run(command),
        Command::Bulk(command) => bulk::run(command).await,
        Command::Schedule(command) => schedule::run(command).await,
        Command::Workflow(command) => workflow::run(command).await,
        Command::Token(command) => token::run(command).await,
        Command::Audit(command) => audit::run(command).await,
        Command::Events(args) => cluster::events(args).await,
        Command::Engine(command) => cluster::engine(command).await,
        Command::Partition(command) => cluster::partition(command).await,
        Command::Alert(command) => cluster::alert(command).await,
        Command::Log(command) => log::run(command).await,
        Command::Stats(args) => cluster::stats(args).await,
        Command::Top(args) => cluster::top(args).await,
        Command::Tail(args) => cluster::tail(args).await,
        Command::Work(args) => work::run(args).await,
        Command::Shard(command) => shard::run(command).await,
        Command::Migrate(args) => serve::migrate(args).await,
        Command::Doctor(args) => doctor::run(args).await,
        Command::Config(args) => config::run(&args),
        Command::Man(args) => man::run(&args),
        Command::Openapi(args) => openapi::run(&args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "punctual", &mut script);
            output::text(String::from_utf8_lossy(&script).trim_end());
            Ok(ExitCode::SUCCESS)
        }
    }
}
