//! The binary, from the outside: processes, HTTP, files, signals. One test binary, so that it is linked once.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics has failed")]

#[path = "all/archive.rs"]
mod archive;
#[path = "all/audited.rs"]
mod audited;
#[path = "all/backup.rs"]
mod backup;
#[path = "all/binary.rs"]
mod binary;
#[path = "all/book.rs"]
mod book;
#[path = "all/bulk.rs"]
mod bulk;
#[path = "all/change_log.rs"]
mod change_log;
#[path = "all/clients.rs"]
mod clients;
#[path = "all/clocks.rs"]
mod clocks;
#[path = "all/cluster.rs"]
mod cluster;
#[path = "all/config.rs"]
mod config;
#[path = "all/console.rs"]
mod console;
#[path = "all/dev.rs"]
mod dev;
#[path = "all/doctor.rs"]
mod doctor;
#[path = "all/door.rs"]
mod door;
#[path = "all/durability.rs"]
mod durability;
#[path = "all/for_later.rs"]
mod for_later;
#[path = "all/full_disk.rs"]
mod full_disk;
#[path = "all/hot_sets.rs"]
mod hot_sets;
#[path = "all/inbox.rs"]
mod inbox;
#[path = "all/inbox_examples.rs"]
mod inbox_examples;
#[path = "all/load.rs"]
mod load;
#[path = "all/log_away.rs"]
mod log_away;
#[path = "all/namespace.rs"]
mod namespace;
#[path = "all/network.rs"]
mod network;
#[path = "all/newcomer.rs"]
mod newcomer;
#[path = "all/objects.rs"]
mod objects;
#[path = "all/operate.rs"]
mod operate;
#[path = "all/otlp.rs"]
mod otlp;
#[path = "all/packaging.rs"]
mod packaging;
#[path = "all/pages.rs"]
mod pages;
#[path = "all/poison.rs"]
mod poison;
#[path = "all/profile.rs"]
mod profile;
#[path = "all/python_sdk.rs"]
mod python_sdk;
#[path = "all/recovery.rs"]
mod recovery;
#[path = "all/released.rs"]
mod released;
#[path = "all/replaced.rs"]
mod replaced;
#[path = "all/schedule.rs"]
mod schedule;
#[path = "all/screen.rs"]
mod screen;
#[path = "all/secrets.rs"]
mod secrets;
#[path = "all/serve.rs"]
mod serve;
#[path = "all/several.rs"]
mod several;
#[path = "all/stood_still.rs"]
mod stood_still;
#[path = "all/stopping.rs"]
mod stopping;
#[path = "all/task.rs"]
mod task;
#[path = "all/terminal.rs"]
mod terminal;
#[path = "all/tls.rs"]
mod tls;
#[path = "all/token.rs"]
mod token;
#[path = "all/traces.rs"]
mod traces;
#[path = "all/typescript_sdk.rs"]
mod typescript_sdk;
#[path = "all/watched.rs"]
mod watched;
#[path = "all/work.rs"]
mod work;
#[path = "all/workflow.rs"]
mod workflow;
