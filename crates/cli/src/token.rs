//! `punctual token …`: who may call. On the store itself, so that the first token can be made and a lost one replaced; with
//! `--server`, through the API of a server that runs on it.

mod stored;

use crate::{
    config::SettingArgs,
    connect::{self, TRIES_OF_ONE_CALL},
    duration, logs,
    output::{self, Form},
    times,
};
use anyhow::{Context as _, Result};
use clap::{
    Args, Subcommand,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use punctual_contract::Clock as _;
use punctual_protocol::{AccessToken, At, CreateToken, ListTokens, Role, RotateToken, TokenState};
use punctual_sdk::Client;
use std::{process::ExitCode, time::Duration};

#[derive(Subcommand, Debug)]
pub(crate) enum TokenCommand {
    /// Create a token and show it, only this once
    Create(CreateArgs),
    /// Show all tokens, without their secrets
    List(PlaceArgs),
    /// Give a token a new secret and show it, only this once
    Rotate(RotateArgs),
    /// Revoke a token permanently; every engine refuses it within a second
    Revoke(RevokeArgs),
}

/// The place of the tokens.
#[derive(Args, Clone, Debug)]
pub(crate) struct PlaceArgs {
    /// Call the API of this server with the token of PUNCTUAL_TOKEN, instead of opening the store
    #[arg(long, env = "PUNCTUAL_URL", value_name = "URL")]
    server: Option<String>,
    /// Call the API of the server of this profile with its token (see `punctual profile`)
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingArgs,
}

#[derive(Args, Debug)]
pub(crate) struct CreateArgs {
    /// Name, shown in lists, histories and the audit log
    #[arg(long)]
    name: String,
    /// Role of the token; several with commas, or repeated
    #[arg(long, required = true, value_delimiter = ',', value_parser = roles_parser())]
    role: Vec<Role>,
    /// Namespace that the token may access, or a prefix such as team-* [default: all]
    #[arg(long, value_name = "PATTERN")]
    namespace: Vec<String>,
    /// Queue that the token may access, or a prefix such as mail-* [default: all]
    #[arg(long, value_name = "PATTERN")]
    queue: Vec<String>,
    /// Lifetime of the token, such as 90d [default: no expiry]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    expires: Option<Duration>,
    /// First token only: how long requests without a token are still accepted, such as 2h; at most 30 days
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    grace: Option<Duration>,
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Args, Debug)]
pub(crate) struct RotateArgs {
    /// Id of the token: the part between its first two underscores
    id: String,
    /// How long the previous secret stays valid
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration::parse, allow_hyphen_values = true)]
    overlap: Duration,
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Args, Debug)]
pub(crate) struct RevokeArgs {
    /// Id of the token: the part between its first two underscores
    id: String,
    #[command(flatten)]
    place: PlaceArgs,
}

fn roles_parser() -> impl TypedValueParser<Value = Role> {
    let values = Role::ALL.map(|role| PossibleValue::new(role.word()).help(role.means()));
    PossibleValuesParser::new(values).try_map(|word| Role::from_word(&word).ok_or("there is no such role"))
}

impl PlaceArgs {
    /// `None` for the store itself.
    fn client(&self) -> Result<Option<Client>> {
        if let Some(name) = &self.profile {
            return Ok(Some(connect::named(name)?.client(None)?.tries(TRIES_OF_ONE_CALL).build()?));
        }
        let Some(url) = self.server.as_ref().filter(|server| !server.is_empty()) else { return Ok(None) };
        Ok(Some(Client::builder().url(url).tries(TRIES_OF_ONE_CALL).build()?))
    }

    const fn form(&self) -> Form {
        Form::json_if(self.json)
    }
}

pub(crate) async fn run(command: TokenCommand) -> Result<ExitCode> {
    logs::start_for_client();
    match command {
        TokenCommand::Create(args) => create(args).await,
        TokenCommand::List(place) => {
            let tokens = match place.client()? {
                Some(client) => all(&client).await.context(WAY_OUT)?,
                None => stored::list(&place.settings).await?,
            };
            list(&place, &tokens)
        }
        TokenCommand::Rotate(RotateArgs { id, overlap, place }) => {
            let asked = RotateToken { overlap_ms: Some(duration::ms(overlap)) };
            let token = match place.client()? {
                Some(client) => client.rotate_token(&id, &asked).await.context(WAY_OUT)?,
                None => stored::rotate(&place.settings, &id, asked.overlap_ms()).await?,
            };
            show(&place, &token)
        }
        TokenCommand::Revoke(RevokeArgs { id, place }) => {
            let token = match place.client()? {
                Some(client) => client.revoke_token(&id).await.context(WAY_OUT)?,
                None => stored::revoke(&place.settings, &id).await?,
            };
            show(&place, &token)
        }
    }
}

/// Page by page.
async fn all(client: &Client) -> Result<Vec<AccessToken>> {
    let (mut all, mut asked) = (Vec::new(), ListTokens::default());
    loop {
        let page = client.tokens(&asked).await?;
        all.extend(page.items);
        asked.cursor = page.next_cursor;
        if asked.cursor.is_none() {
            return Ok(all);
        }
    }
}

const WAY_OUT: &str = "the server (--server, or PUNCTUAL_URL) did not do it; without both, the command works on the \
                       store itself";

async fn create(args: CreateArgs) -> Result<ExitCode> {
    let CreateArgs { name, role, namespace, queue, expires, grace, place } = args;
    let some = |patterns: Vec<String>| Some(patterns).filter(|pattern| !pattern.is_empty());
    let expires_at_ms = expires.map(|expires| crate::clock::SystemClock.now().plus(duration::ms(expires)).0);
    let asked = CreateToken {
        name,
        roles: role,
        namespaces: some(namespace),
        queues: some(queue),
        expires_at: None,
        expires_at_ms,
        grace_ms: grace.map(duration::ms),
    };
    asked.check()?;
    let (token, is_first) = match place.client()? {
        Some(client) => {
            let is_first =
                client.tokens(&ListTokens::default()).await.is_ok_and(|page| page.items.is_empty());
            (client.create_token(&asked).await.context(WAY_OUT)?, is_first)
        }
        None => stored::create(&place.settings, &asked).await?,
    };
    match token.required_at {
        Some(at) => output::error_line(&put_off(at)),
        None if is_first => output::error_line(FIRST),
        None => {}
    }
    show(&place, &token)
}

/// Printed with the first token: before it, every caller of the server could do everything.
const FIRST: &str = "this is the first token: within a second each request needs one, at every engine and for good. Workers, \
                     clients and scrapers that send none are refused (401 auth.required) until they have one of their own: \
                     `punctual token create --name NAME --role executor` for a worker, given to it as PUNCTUAL_TOKEN. \
                     Next time `--grace 2h` leaves a time for that";

/// The note about each token that is created while requests without a token are accepted.
fn put_off(at: At) -> String {
    format!(
        "requests without a token are accepted until {}: give each worker, client and scraper one of its own before then \
         (`punctual token create --name NAME --role executor` for a worker, given to it as PUNCTUAL_TOKEN)",
        times::full(at)
    )
}

fn show(place: &PlaceArgs, token: &AccessToken) -> Result<ExitCode> {
    match place.form() {
        Form::Json => output::json(token)?,
        Form::Text => print(token),
    }
    Ok(ExitCode::SUCCESS)
}

fn print(access_token: &AccessToken) {
    if let Some(token) = &access_token.token {
        output::line(&token.0);
        output::error_line("shown this once: keep it where secrets are kept, and send it as PUNCTUAL_TOKEN");
    }
    let mut facts = vec![
        ("id", access_token.id.clone()),
        ("name", access_token.name.clone()),
        ("state", state(access_token.state).to_owned()),
        ("roles", roles(access_token)),
        ("namespaces", access_token.namespaces.join(", ")),
        ("queues", access_token.queues.join(", ")),
        ("expires", access_token.expires_at.map_or_else(|| "never".to_owned(), times::full)),
    ];
    facts.extend(access_token.required_at.map(|at| ("required from", times::full(at))));
    facts.extend(access_token.previous_until.map(|at| ("secret before good until", times::full(at))));
    output::facts(&facts);
}

fn list(place: &PlaceArgs, tokens: &[AccessToken]) -> Result<ExitCode> {
    if place.form() == Form::Json {
        output::json(&serde_json::json!({ "items": tokens }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows = tokens.iter().map(|token| {
        let used = token.used_at.map_or_else(|| "never".to_owned(), times::away);
        let reach = format!("{} / {}", token.namespaces.join(","), token.queues.join(","));
        [token.id.clone(), token.name.clone(), state(token.state).to_owned(), roles(token), reach, used]
    });
    output::table(["ID", "NAME", "STATE", "ROLES", "NAMESPACES / QUEUES", "LAST USED"], rows);
    Ok(ExitCode::SUCCESS)
}

const fn state(state: TokenState) -> &'static str {
    match state {
        TokenState::Active => "active",
        TokenState::Expired => "expired",
        TokenState::Revoked => "revoked",
    }
}

fn roles(token: &AccessToken) -> String {
    token.roles.iter().map(|role| role.word()).collect::<Vec<_>>().join(", ")
}
