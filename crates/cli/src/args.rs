//! The command line. One subcommand, one module; nothing is listed here that does not work.

use crate::{
    audit, bulk, cluster, config, dead, dev, doctor, executor, limit, log, look, man, namespace, openapi,
    profile, queue, schedule, serve, shard, task, token, work, workflow,
};
use clap::{Parser, Subcommand};

/// Delayed tasks, on time to the millisecond.
///
/// Exit codes: 0 done, 1 refused or failed, 2 usage.
#[derive(Parser, Debug)]
#[command(name = "punctual", version, max_term_width = 110, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) look: look::LookArgs,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    Dev(dev::DevArgs),
    Serve(serve::ServeArgs),
    /// Insert, read and change tasks of a running server
    #[command(subcommand)]
    Task(task::TaskCommand),
    /// Look at dead tasks, and give them their attempts again
    #[command(subcommand)]
    Dead(dead::DeadCommand),
    /// Look at executors, and send them home
    #[command(subcommand)]
    Executor(executor::ExecutorCommand),
    /// Look at queues
    #[command(subcommand)]
    Queue(queue::QueueCommand),
    /// Look at namespaces, set their limits, delete them
    #[command(subcommand)]
    Namespace(namespace::NamespaceCommand),
    /// Look at the limits of everything, and set them
    #[command(subcommand)]
    Limit(limit::LimitCommand),
    /// Keep the servers that you talk to by name: address, authorities, token
    #[command(subcommand)]
    Profile(profile::ProfileCommand),
    /// Cancel, reschedule, redrive many tasks, and so on: previewed, and then at a bounded rate
    #[command(subcommand)]
    Bulk(bulk::BulkCommand),
    /// Make, look at, pause and run tasks that are made again and again
    #[command(subcommand)]
    Schedule(schedule::ScheduleCommand),
    /// Run, look at, cancel and go on with tasks that follow from each other
    #[command(subcommand)]
    Workflow(workflow::WorkflowCommand),
    /// Make, list, rotate and revoke tokens: who may call
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Read the audit: who changed what, and what was refused
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    Events(cluster::EventsArgs),
    /// Look at the engines of the cluster
    #[command(subcommand)]
    Engine(cluster::EngineCommand),
    /// Look at the partitions of the store
    #[command(subcommand)]
    Partition(cluster::PartitionCommand),
    /// Look at what should be looked at
    #[command(subcommand)]
    Alert(cluster::AlertCommand),
    /// Look at what a server logs, and change it while it runs
    #[command(subcommand)]
    Log(log::LogCommand),
    Stats(cluster::StatsArgs),
    Top(cluster::TopArgs),
    Tail(cluster::TailArgs),
    Work(work::WorkArgs),
    /// Plan and look at the databases of a store
    #[command(subcommand)]
    Shard(shard::ShardCommand),
    Migrate(serve::MigrateArgs),
    Doctor(doctor::DoctorArgs),
    Config(config::ConfigArgs),
    Man(man::ManArgs),
    Openapi(openapi::OpenapiArgs),
    /// Print a completion script for a shell, to be sourced by it
    Completions {
        shell: clap_complete::Shell,
    },
}

#[cfg(test)]
mod pages;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
