//! The command line. One subcommand, one module; nothing is listed here that does not work.

use crate::{
    audit, bulk, cluster, config, dead, dev, doctor, executor, inbox, limit, log, look, man, namespace,
    openapi, profile, queue, schedule, serve, shard, task, token, work, workflow,
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
    /// Show dead tasks, and redrive them
    #[command(subcommand)]
    Dead(dead::DeadCommand),
    /// Show executors; drain, quiet or resume them
    #[command(subcommand)]
    Executor(executor::ExecutorCommand),
    /// Show, configure, pause and resume queues
    #[command(subcommand)]
    Queue(queue::QueueCommand),
    /// Show namespaces, set their limits, delete them
    #[command(subcommand)]
    Namespace(namespace::NamespaceCommand),
    /// Show and set the limits that apply to all namespaces together
    #[command(subcommand)]
    Limit(limit::LimitCommand),
    /// Let a transaction in your own MySQL or MariaDB insert tasks: make the table, show it, remove it
    #[command(subcommand)]
    Inbox(inbox::InboxCommand),
    /// Manage profiles: named servers with their address, certificate authorities and token
    #[command(subcommand)]
    Profile(profile::ProfileCommand),
    /// Change many tasks in one operation (cancel, reschedule, redrive, …), with a preview and at a bounded rate
    #[command(subcommand)]
    Bulk(bulk::BulkCommand),
    /// Manage schedules, which create tasks repeatedly: create, show, pause, run
    #[command(subcommand)]
    Schedule(schedule::ScheduleCommand),
    /// Run and manage workflows: tasks that depend on each other
    #[command(subcommand)]
    Workflow(workflow::WorkflowCommand),
    /// Create, list, rotate and revoke access tokens
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Read the audit log: who changed what, and which calls were refused
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    Events(cluster::EventsArgs),
    /// Show the engines of the cluster
    #[command(subcommand)]
    Engine(cluster::EngineCommand),
    /// Show the partitions of the store
    #[command(subcommand)]
    Partition(cluster::PartitionCommand),
    /// Show the active alerts
    #[command(subcommand)]
    Alert(cluster::AlertCommand),
    /// Show or change the log filter of a running server
    #[command(subcommand)]
    Log(log::LogCommand),
    Stats(cluster::StatsArgs),
    Top(cluster::TopArgs),
    Tail(cluster::TailArgs),
    Work(work::WorkArgs),
    /// Plan, show and change the databases of a store
    #[command(subcommand)]
    Shard(shard::ShardCommand),
    Migrate(serve::MigrateArgs),
    Doctor(doctor::DoctorArgs),
    Config(config::ConfigArgs),
    Man(man::ManArgs),
    Openapi(openapi::OpenapiArgs),
    /// Print a completion script that a shell can source
    Completions {
        /// Shell that runs the script
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
