//! Where the server is, for the commands that are its clients.

use crate::output::Form;
use clap::Args;
use punctual_sdk::{Client, Error};
use std::path::PathBuf;

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Server")]
pub(crate) struct ConnectArgs {
    /// Address of the server, or of several engines of one cluster with commas between; a token is taken from PUNCTUAL_TOKEN
    #[arg(long, env = "PUNCTUAL_URL", default_value = "http://127.0.0.1:7450", value_name = "URL")]
    pub(crate) url: String,
    /// Authorities whose servers are trusted, PEM [default: those of the system]
    #[arg(long, env = "PUNCTUAL_CA_FILE", value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Certificate to show to a server that wants one, PEM
    #[arg(long, env = "PUNCTUAL_CLIENT_CERT", value_name = "FILE", requires = "client_key")]
    client_cert: Option<PathBuf>,
    /// Its key, PEM
    #[arg(long, env = "PUNCTUAL_CLIENT_KEY", value_name = "FILE", requires = "client_cert")]
    client_key: Option<PathBuf>,
    /// Namespace of the tasks
    #[arg(long, env = "PUNCTUAL_NAMESPACE", value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Answer in JSON: one document a line on stdout
    #[arg(long)]
    json: bool,
}

impl ConnectArgs {
    /// `tries`: how often a call that may be repeated is sent.
    pub(crate) fn client(&self, tries: u32) -> Result<Client, Error> {
        let mut builder = Client::builder().url(&self.url).tries(tries);
        if let Some(ca) = &self.ca {
            builder = builder.ca_file(ca);
        }
        if let (Some(cert), Some(key)) = (&self.client_cert, &self.client_key) {
            builder = builder.client_certificate(cert, key);
        }
        match &self.namespace {
            Some(namespace) => builder.namespace(namespace).build(),
            None => builder.build(),
        }
    }

    pub(crate) const fn form(&self) -> Form {
        Form::json_if(self.json)
    }
}

/// For somebody who waits at a terminal: a server that is away is said within a second.
pub(crate) const TRIES_OF_ONE_CALL: u32 = 4;
