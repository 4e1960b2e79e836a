//! The server for the commands that are its clients: a profile, or flags over the environment. Never both: the token
//! of one server must not be sent to another.

use crate::{
    output::{self, Form},
    profile::{self, Profile, Profiles},
};
use anyhow::{Result, bail};
use clap::Args;
use punctual_sdk::Client;
use std::{env, path::PathBuf, time::Duration};

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Server")]
pub(crate) struct ConnectArgs {
    /// Use the server and the token of this profile (see `punctual profile`) [env: PUNCTUAL_PROFILE]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["url", "ca", "client_cert"])]
    profile: Option<String>,
    /// URL of the server, or comma-separated URLs of engines of one cluster; the token is read from PUNCTUAL_TOKEN [env:
    /// PUNCTUAL_URL] [default: the default profile, or http://127.0.0.1:7450]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Certificate authorities to trust, PEM [env: PUNCTUAL_CA_FILE] [default: those of the system]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Client certificate, for a server that requires one, PEM [env: PUNCTUAL_CLIENT_CERT]
    #[arg(long, value_name = "FILE", requires = "client_key")]
    client_cert: Option<PathBuf>,
    /// Private key of the client certificate, PEM [env: PUNCTUAL_CLIENT_KEY]
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    client_key: Option<PathBuf>,
    /// Namespace of the tasks [env: PUNCTUAL_NAMESPACE]
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Print JSON: one document per line on stdout
    #[arg(long)]
    json: bool,
}

impl ConnectArgs {
    /// `tries`: how often a call that may be repeated is sent.
    pub(crate) fn client(&self, tries: u32) -> Result<Client> {
        let is_said = self.url.is_some() || self.ca.is_some() || self.client_cert.is_some();
        let profile = if is_said { None } else { chosen(self.profile.as_deref())? };
        if let Some(profile) = profile {
            return Ok(profile.client(self.namespace.as_deref())?.tries(tries).build()?);
        }
        let mut builder = Client::builder().tries(tries);
        if let Some(url) = &self.url {
            builder = builder.url(url);
        }
        if let Some(ca) = &self.ca {
            builder = builder.ca_file(ca);
        }
        if let (Some(cert), Some(key)) = (&self.client_cert, &self.client_key) {
            builder = builder.client_certificate(cert, key);
        }
        if let Some(namespace) = self.namespace.clone().or_else(|| set("PUNCTUAL_NAMESPACE")) {
            builder = builder.namespace(namespace);
        }
        Ok(builder.build()?)
    }

    /// A call of a caller who waits at a terminal: the reason for a wait is reported before the wait is long.
    pub(crate) async fn waited<T>(&self, what: &str, call: impl Future<Output = T>) -> T {
        let mut call = std::pin::pin!(call);
        tokio::select! {
            done = &mut call => return done,
            () = tokio::time::sleep(SILENT_FOR) => {}
        }
        output::error_line(&format!(
            "waiting for {}: {what}, and there is no answer yet. If you stop now, it may have happened all the same",
            self.server()
        ));
        call.await
    }

    /// The server of the call.
    fn server(&self) -> String {
        let profile =
            self.profile.clone().or_else(|| set("PUNCTUAL_PROFILE")).map(|name| format!("profile {name}"));
        let url = self.url.clone().or(profile).or_else(|| set("PUNCTUAL_URL"));
        url.unwrap_or_else(|| "the server of the default profile, or http://127.0.0.1:7450".to_owned())
    }

    /// The namespace of a command that covers all namespaces unless one is named.
    pub(crate) fn named_namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    pub(crate) const fn form(&self) -> Form {
        Form::json_if(self.json)
    }
}

/// The profile that is used if no flag names a server. `None` if the environment names the server, or there is none.
fn chosen(asked: Option<&str>) -> Result<Option<Profile>> {
    if let Some(name) = asked {
        return named(name).map(Some);
    }
    match (set("PUNCTUAL_PROFILE"), set("PUNCTUAL_URL")) {
        (Some(name), None) => named(&name).map(Some),
        (Some(_), Some(_)) => {
            bail!("PUNCTUAL_PROFILE and PUNCTUAL_URL are both set, and name two servers: unset one")
        }
        (None, Some(_)) => Ok(None),
        (None, None) => default_profile(),
    }
}

/// The one of this name.
pub(crate) fn named(name: &str) -> Result<Profile> {
    Ok(Profiles::read(&profile::path()?)?.get(name)?.clone())
}

/// A machine without a place for profiles has none.
fn default_profile() -> Result<Option<Profile>> {
    let Ok(path) = profile::path() else { return Ok(None) };
    let profiles = Profiles::read(&path)?;
    let default = profiles.default.as_deref();
    Ok(default.map(|name| profiles.get(name).cloned()).transpose()?)
}

/// A variable that is not empty.
fn set(name: &str) -> Option<String> {
    env::var(name).ok().filter(|text| !text.is_empty())
}

/// The time after which a command must show a sign of progress.
const SILENT_FOR: Duration = Duration::from_secs(2);

/// The number of tries for a caller at a terminal: an unavailable server is reported within a second.
pub(crate) const TRIES_OF_ONE_CALL: u32 = 4;
