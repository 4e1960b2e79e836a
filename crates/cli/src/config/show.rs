//! `punctual config`: each effective value and the layer it came from.

use super::{
    Layers, SettingArgs, Settings, init,
    keys::{
        BATCH_BODY_MAX_BYTES, HOT_URL, JOURNAL_DIRECTORY, KEYS, PAYLOAD_MAX_BYTES, PAYLOADS_URL, STORE_URL,
    },
    secrets::shown as visible,
    settings::store_url,
    source::SettingSource,
};
use crate::{
    output::{self, Form},
    spans,
};
use anyhow::Result;
use clap::Args;
use serde::Serialize;
use std::process::ExitCode;

/// Show each effective setting and where it came from
#[derive(Args, Debug)]
pub(crate) struct ConfigArgs {
    #[command(flatten)]
    settings: SettingArgs,
    /// Print a configuration file instead: every key with an explanation; keys that are not set are comments with their
    /// defaults
    #[arg(long, conflicts_with = "json")]
    init: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Shown {
    key: &'static str,
    value: String,
    /// default, file, env or flag.
    source: &'static str,
    /// The file, variable or flag.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    variable: &'static str,
    about: &'static str,
}

pub(crate) fn run(args: &ConfigArgs) -> Result<ExitCode> {
    let layers = args.settings.layers()?;
    let settings = Settings::from_layers(&layers)?;
    if args.init {
        output::text(init::file(&layers).trim_end());
        return Ok(ExitCode::SUCCESS);
    }
    let settings = shown(&layers, &settings)?;
    match Form::json_if(args.json) {
        Form::Json => output::json(&serde_json::json!({
            "settings": settings,
            "unused_variables": layers.unused_variables,
            "warnings": layers.warnings,
        }))?,
        Form::Text => print(&settings, &layers),
    }
    Ok(ExitCode::SUCCESS)
}

/// The effective value of a key that is not set and follows from other keys.
fn followed(key: &str, layers: &Layers, settings: &Settings) -> Result<Option<String>, super::Error> {
    let payloads = &settings.payloads;
    Ok(match key {
        STORE_URL => Some(store_url(layers)?),
        HOT_URL => Some(settings.place.hot_if_unset().to_owned()),
        PAYLOADS_URL => payloads.url.clone(),
        PAYLOAD_MAX_BYTES => Some(payloads.payload_max_bytes.to_string()),
        JOURNAL_DIRECTORY => settings.journal.as_ref().map(|place| place.directory.display().to_string()),
        BATCH_BODY_MAX_BYTES => Some(payloads.batch_body_max_bytes.to_string()),
        _ => None,
    })
}

fn shown(layers: &Layers, settings: &Settings) -> Result<Vec<Shown>, super::Error> {
    let mut all = Vec::new();
    for key in KEYS {
        let given = layers.get(key.name);
        let is_left = given.from == SettingSource::Default || given.text.is_empty();
        let followed = if is_left { followed(key.name, layers, settings)? } else { None };
        let value = visible(key.name, followed.as_ref().unwrap_or(&given.text));
        let from = match &given.from {
            SettingSource::Default => None,
            SettingSource::File(path) => Some(path.display().to_string()),
            SettingSource::Environment(name) | SettingSource::Flag(name) => Some(name.clone()),
            SettingSource::SecretFile(path, _) => Some(path.display().to_string()),
        };
        let source = given.from.word();
        all.push(Shown { key: key.name, value, source, from, variable: key.variable, about: key.about });
    }
    Ok(all)
}

/// Milliseconds in words too: `600000 (10 min)`.
fn said(shown: &Shown) -> String {
    match shown.value.parse() {
        Ok(ms) if shown.key.ends_with("_ms") && ms > 0 => {
            format!("{} ({})", shown.value, spans::whole_span(ms))
        }
        _ => shown.value.clone(),
    }
}

fn print(settings: &[Shown], layers: &Layers) {
    let rows = settings.iter().map(|setting| {
        let from = setting
            .from
            .as_ref()
            .map_or_else(|| setting.source.to_owned(), |from| format!("{} {from}", setting.source));
        [setting.key.to_owned(), said(setting), from, setting.about.to_owned()]
    });
    output::table(["KEY", "VALUE", "FROM", "WHAT IT IS"], rows);
    for variable in &layers.unused_variables {
        output::error_line(&format!("note: {variable} is in the environment and is no setting"));
    }
    for warning in &layers.warnings {
        output::error_line(&format!("warning: {warning}"));
    }
}
