//! The flags that set settings, the same for every command that has any.

use super::{Error, Layers, keys};
use clap::Args;
use std::path::PathBuf;

#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Settings (default < file < environment < flag)")]
pub(crate) struct SettingArgs {
    /// Configuration file, TOML
    #[arg(long, value_name = "FILE", env = "PUNCTUAL_CONFIG")]
    config: Option<PathBuf>,
    /// Address and port of the API [default: 127.0.0.1:7450] [env: PUNCTUAL_LISTEN]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Directory of the embedded store [default: ./punctual-data] [env: PUNCTUAL_DATA]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// URL of the durable store [default: sqlite://DATA/punctual.db] [env: PUNCTUAL_STORE_URL]
    #[arg(long, value_name = "URL")]
    store_url: Option<String>,
    /// URL of the Redis for tasks that are due soon [default: memory with an sqlite store, none with a mysql store] [env:
    /// PUNCTUAL_HOT_URL]
    #[arg(long, value_name = "URL")]
    hot_url: Option<String>,
    /// User's own database with an inbox, NAME=mysql://user:password@host/database, and #table=TABLE&namespace=NAMESPACE behind it;
    /// may be repeated [env: PUNCTUAL_INBOX_URL]
    #[arg(long, value_name = "URL")]
    inbox: Vec<String>,
    /// Log filter, such as info,punctual_engine=debug [default: info] [env: PUNCTUAL_LOG_FILTER]
    #[arg(long, value_name = "FILTER")]
    log_filter: Option<String>,
    /// Log format, text or json [default: text] [env: PUNCTUAL_LOG_FORMAT]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Any setting by its key, such as engine.horizon_ms=600000; `punctual config` lists them
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
}

impl SettingArgs {
    pub(crate) fn layers(&self) -> Result<Layers, Error> {
        let mut layers = Layers::defaults();
        if let Some(path) = &self.config {
            layers.read_file(path)?;
        }
        layers.environment(std::env::vars())?;
        for (key, value) in &self.set {
            layers.flag("--set", key, value.clone())?;
        }
        for (flag, key, value) in [
            ("--listen", keys::LISTEN, &self.listen),
            ("--data", keys::DATA, &self.data),
            ("--store-url", keys::STORE_URL, &self.store_url),
            ("--hot-url", keys::HOT_URL, &self.hot_url),
            ("--log-filter", keys::LOG_FILTER, &self.log_filter),
            ("--log-format", keys::LOG_FORMAT, &self.log_format),
        ] {
            if let Some(value) = value {
                layers.flag(flag, key, value.clone())?;
            }
        }
        if !self.inbox.is_empty() {
            layers.flag("--inbox", keys::INBOX_URL, self.inbox.join(","))?;
        }
        Ok(layers)
    }
}

pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("must be KEY=VALUE")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}
