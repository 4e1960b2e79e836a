//! The operator's settings: default < file < environment < flag. Everything is checked here, at the start, and every
//! complaint names the key, the value and the layer it came from. Reads no clock and opens no store.

mod args;
mod error;
mod inbox_tables;
mod inboxes;
mod init;
mod journal;
pub(crate) mod keys;
mod layers;
mod listening;
mod otel;
mod payloads;
mod place;
mod secrets;
mod settings;
mod show;
mod source;
mod telemetry;

pub(crate) use args::{SettingArgs, pair};
pub(crate) use error::Error;
pub(crate) use inboxes::InboxPlace;
pub(crate) use journal::JournalPlace;
pub(crate) use keys::WEAK_DURABILITY;
pub(crate) use layers::Layers;
pub(crate) use listening::Listening;
pub(crate) use payloads::Payloads;
pub(crate) use place::{SharedPlace, StoreLocation};
pub(crate) use secrets::{is_open_to_all, read_bus_url, read_secret, shown_hot_url};
pub(crate) use settings::{Archive, LogFormat, Settings};
pub(crate) use show::{ConfigArgs, run};
