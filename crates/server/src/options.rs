//! The operator's options of the server, with their defaults. Sizes are bytes.

use crate::{access::TrustedProxies, listener::TlsFiles, log_filter::state::LogFilters};
use punctual_bulk::Runner;
use punctual_cluster::Watcher;
use punctual_inbox::Relay;
use punctual_protocol::limits;
use punctual_schedules::Planner;
use punctual_traces::Traces;
use punctual_webhook::Dispatcher;
use punctual_workflows::Runner as Workflows;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Longest body of a request.
    pub batch_body_max_bytes: usize,
    /// Longest payload of a task, and longest result of an outcome: the text of JSON, or the decoded bytes.
    pub payload_max_bytes: usize,
    /// Follows that number where a payload is refused: what would let it pass.
    pub payload_advice: &'static str,
    /// The time limit for the receipt of a request's body.
    pub body_timeout: Duration,
    /// The maximum size of all bodies in memory, complete or partial; a request that would exceed it is answered with
    /// 429.
    pub bodies_max_bytes: usize,
    /// Requests worked on at once, long polls not counted; more are answered with 429.
    pub in_flight_max: usize,
    /// The time for which an answer is stored under its idempotency key.
    pub keep_replies_ms: i64,
    /// The time for which a stopping server waits for running requests.
    pub drain_timeout: Duration,
    /// `None` answers calls about schedules as if there were no such address.
    pub schedules: Option<Planner>,
    /// The same of workflows.
    pub workflows: Option<Workflows>,
    /// The same for bulk operations.
    pub bulk: Option<Runner>,
    /// The same for calls about the cluster.
    pub cluster: Option<Watcher>,
    /// Tables of users whose rows become tasks.
    pub inboxes: Vec<Relay>,
    /// Delivers the tasks of webhook queues. `None` if no queue can be one.
    pub webhooks: Option<Dispatcher>,
    /// `None` sends traces to no collector.
    pub traces: Option<Traces>,
    /// `None` if the log filter cannot be changed.
    pub log: Option<LogFilters>,
    pub listener: ListenerOptions,
    /// A page of the console that takes longer is answered with its last rendering.
    pub console_patience: Duration,
}

/// The options of connections. `None` for a number derives it from the descriptors of the process (`ulimit -n`).
#[derive(Clone, Debug)]
pub struct ListenerOptions {
    /// `None` for plain HTTP.
    pub tls: Option<TlsFiles>,
    /// The proxies that may name the address of their caller (`X-Forwarded-For`, `Forwarded`).
    pub trusted_proxies: TrustedProxies,
    /// Only connections of these proxies, and of this machine, are accepted.
    pub only_proxies: bool,
    /// Connections at once. More are answered with 503, unless idle ones can make room.
    pub connections_max: Option<usize>,
    /// The maximum number of connections of one IPv4 address or one IPv6 network of 64 bits. Default: half of all.
    pub connections_per_address_max: Option<usize>,
    /// Calls that wait for tasks at once; three quarters of the connections unless set. More are answered with 429.
    pub long_polls_max: Option<usize>,
    pub handshake_timeout: Duration,
    /// The time limit for the head of a request, from its first byte; and from the opening of a connection to its
    /// first request.
    pub header_timeout: Duration,
    /// The time for which a connection may be idle. Longer than clients and proxies commonly keep one (60 s), so that
    /// they end it, and no request meets a closing connection.
    pub idle_timeout: Duration,
    /// Within this an answer must have been taken, or 64 KiB more of it.
    pub write_timeout: Duration,
    /// The time limit for a connection that must finish and has no running request.
    pub close_timeout: Duration,
    /// Requests at once on one connection of HTTP/2.
    pub http2_streams_max: u32,
    /// A connection of HTTP/2 is asked this often whether its peer is there.
    pub http2_ping_interval: Duration,
    pub http2_ping_timeout: Duration,
    /// The interval of the checks for changed files of `tls`.
    pub tls_look_every: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            batch_body_max_bytes: limits::REQUEST_BYTES_DEFAULT,
            payload_max_bytes: limits::PAYLOAD_BYTES_DEFAULT,
            payload_advice: "",
            body_timeout: Duration::from_secs(30),
            bodies_max_bytes: 512 << 20,
            in_flight_max: 8_192,
            keep_replies_ms: 24 * 3_600_000,
            drain_timeout: Duration::from_secs(5),
            schedules: None,
            workflows: None,
            bulk: None,
            cluster: None,
            inboxes: Vec::new(),
            webhooks: None,
            traces: None,
            log: None,
            listener: ListenerOptions::default(),
            console_patience: punctual_console::PATIENCE,
        }
    }
}

impl Default for ListenerOptions {
    fn default() -> Self {
        Self {
            tls: None,
            trusted_proxies: TrustedProxies::default(),
            only_proxies: false,
            connections_max: None,
            connections_per_address_max: None,
            long_polls_max: None,
            handshake_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(30),
            close_timeout: Duration::from_secs(5),
            http2_streams_max: 250,
            http2_ping_interval: Duration::from_secs(30),
            http2_ping_timeout: Duration::from_secs(20),
            tls_look_every: Duration::from_secs(3),
        }
    }
}
