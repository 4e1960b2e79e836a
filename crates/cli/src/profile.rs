//! `punctual profile …`: servers by name, each with its addresses, authorities and token. Changes nothing but the file of profiles.

mod file;

pub(crate) use file::{Profile, Profiles, path};

use crate::output::{self, Form};
use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use std::{
    io::{IsTerminal as _, Read as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

#[derive(Subcommand, Debug)]
pub(crate) enum ProfileCommand {
    /// Show the profiles, without their tokens
    List(ProfileListArgs),
    /// Create a profile, or change parts of it
    ///
    /// A profile is used with `--profile NAME`, with PUNCTUAL_PROFILE, or as the default. A profile is complete: the
    /// environment adds nothing to it.
    Set(ProfileSetArgs),
    /// Make a profile the default, which is used if neither --profile, --url nor the environment names a server
    Use(UseArgs),
    /// Delete a profile
    Remove(RemoveArgs),
}

#[derive(Args, Debug)]
pub(crate) struct ProfileListArgs {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ProfileSetArgs {
    /// Name of the profile
    #[arg(value_parser = name)]
    name: String,
    /// URL of the server, or comma-separated URLs of engines of one cluster
    #[arg(long, value_name = "URL,URL", value_delimiter = ',')]
    url: Vec<String>,
    /// Read the token from stdin and store it
    #[arg(long, conflicts_with_all = ["token_file", "no_token"])]
    token_stdin: bool,
    /// Read the token from this file at each use
    #[arg(long, value_name = "FILE", conflicts_with = "no_token")]
    token_file: Option<PathBuf>,
    /// Remove the token
    #[arg(long)]
    no_token: bool,
    /// Certificate authorities to trust, PEM [default: those of the system]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Client certificate, for a server that requires one, PEM
    #[arg(long, value_name = "FILE", requires = "client_key")]
    client_cert: Option<PathBuf>,
    /// Private key of the client certificate, PEM
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    client_key: Option<PathBuf>,
    /// Namespace of the tasks
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Make this the default profile
    #[arg(long)]
    default: bool,
}

#[derive(Args, Debug)]
pub(crate) struct UseArgs {
    /// Name of the profile; without one, there is no default profile
    name: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct RemoveArgs {
    /// Name of the profile
    name: String,
}

pub(crate) fn run(command: ProfileCommand) -> Result<ExitCode> {
    let path = path()?;
    let mut profiles = Profiles::read(&path)?;
    match command {
        ProfileCommand::List(args) => list(&profiles, Form::json_if(args.json))?,
        ProfileCommand::Set(args) => {
            set(&mut profiles, args)?;
            profiles.write(&path)?;
        }
        ProfileCommand::Use(UseArgs { name }) => {
            if let Some(name) = &name {
                profiles.get(name)?;
            }
            profiles.default = name;
            profiles.write(&path)?;
        }
        ProfileCommand::Remove(RemoveArgs { name }) => {
            profiles.get(&name)?;
            profiles.profiles.remove(&name);
            profiles.default = profiles.default.filter(|default| *default != name);
            profiles.write(&path)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A name that needs no quotes in the file and on a command line.
fn name(text: &str) -> Result<String, String> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    let is_name = !text.is_empty() && text.len() <= 64 && text.chars().all(is_plain);
    is_name.then(|| text.to_owned()).ok_or_else(|| "must be up to 64 letters, digits, -, _ or .".to_owned())
}

fn set(profiles: &mut Profiles, args: ProfileSetArgs) -> Result<()> {
    let profile = profiles.profiles.entry(args.name.clone()).or_default();
    if !args.url.is_empty() {
        profile.urls = args.url.into_iter().map(|text| text.trim().to_owned()).collect();
    }
    if profile.urls.is_empty() {
        bail!("a new profile needs the address of a server: --url");
    }
    if args.no_token || args.token_stdin || args.token_file.is_some() {
        (profile.token, profile.token_file) = (None, None);
    }
    if args.token_stdin {
        profile.token = Some(typed_token()?);
    }
    // Another directory must find the same files.
    let whole = |path: Option<PathBuf>| path.map(|path| there(&path)).transpose();
    profile.token_file = whole(args.token_file)?.or_else(|| profile.token_file.take());
    profile.ca = whole(args.ca)?.or_else(|| profile.ca.take());
    profile.client_cert = whole(args.client_cert)?.or_else(|| profile.client_cert.take());
    profile.client_key = whole(args.client_key)?.or_else(|| profile.client_key.take());
    profile.namespace = args.namespace.or_else(|| profile.namespace.take());
    // What no client could be made of is refused now, and not when it is needed.
    profile.client(None)?.build()?;
    if args.default {
        profiles.default = Some(args.name);
    }
    Ok(())
}

fn there(path: &Path) -> Result<PathBuf> {
    path.canonicalize().with_context(|| format!("{} cannot be found", path.display()))
}

fn typed_token() -> Result<String> {
    let mut stdin = std::io::stdin();
    if stdin.is_terminal() {
        output::error_line("The token, and then an end of file (Ctrl-D):");
    }
    let mut text = String::new();
    stdin.read_to_string(&mut text).context("the token cannot be read from stdin")?;
    match text.trim() {
        "" => bail!("there is no token on stdin"),
        token => Ok(token.to_owned()),
    }
}

impl Profile {
    /// `namespace`: instead of its own.
    pub(crate) fn client(&self, namespace: Option<&str>) -> Result<punctual_sdk::ClientBuilder> {
        let mut builder = punctual_sdk::ClientBuilder::without_environment().url(self.urls.join(","));
        if let Some(token) = self.token()? {
            builder = builder.token(token);
        }
        if let Some(ca) = &self.ca {
            builder = builder.ca_file(ca);
        }
        if let (Some(cert), Some(key)) = (&self.client_cert, &self.client_key) {
            builder = builder.client_certificate(cert, key);
        }
        Ok(match namespace.or(self.namespace.as_deref()) {
            Some(namespace) => builder.namespace(namespace),
            None => builder,
        })
    }

    fn token_is(&self) -> String {
        match (&self.token, &self.token_file) {
            (_, Some(path)) => path.display().to_string(),
            (Some(_), None) => "kept".to_owned(),
            (None, None) => "none".to_owned(),
        }
    }
}

fn list(profiles: &Profiles, form: Form) -> Result<()> {
    let is_default = |name: &String| profiles.default.as_ref() == Some(name);
    if form == Form::Json {
        let items = profiles.profiles.iter().map(|(name, profile)| {
            serde_json::json!({
                "name": name, "is_default": is_default(name), "urls": profile.urls, "token": profile.token_is(), "ca": profile.ca,
                "client_cert": profile.client_cert, "namespace": profile.namespace,
            })
        });
        return Ok(output::json(&serde_json::json!({ "items": items.collect::<Vec<_>>() }))?);
    }
    if profiles.profiles.is_empty() {
        output::error_line("there are no profiles; `punctual profile set NAME --url URL` makes one");
        return Ok(());
    }
    let rows = profiles.profiles.iter().map(|(name, profile)| {
        [
            name.clone(),
            if is_default(name) { "default".to_owned() } else { String::new() },
            profile.urls.join(", "),
            profile.token_is(),
            profile.namespace.clone().unwrap_or_default(),
        ]
    });
    output::table(["PROFILE", "", "SERVERS", "TOKEN", "NAMESPACE"], rows);
    Ok(())
}
