//! `punctual task list`: search, a page at a time or all of it.

use super::show;
use crate::{
    clock::SystemClock,
    connect::{ConnectArgs, TRIES_OF_ONE_CALL},
    output::{self, Form},
    queue, times,
};
use anyhow::Result;
use clap::Args;
use punctual_contract::Clock as _;
use punctual_protocol::{FoundTasks, Phase, SearchTasks, SortTasks, State, TimeBound, limits::PAGE_DEFAULT};
use punctual_sdk::Client;
use serde::de::{DeserializeOwned, IntoDeserializer, value::StrDeserializer};
use std::process::ExitCode;

/// Search tasks
#[derive(Args, Debug)]
pub(crate) struct TaskListArgs {
    /// Only tasks of this queue
    #[arg(long, short)]
    queue: Option<String>,
    /// Only tasks in this state: scheduled, ready, dispatched, running, retrying, succeeded, dead, cancelled, …
    #[arg(long, value_parser = word::<State>)]
    state: Option<State>,
    /// Only tasks in this phase (a group of states): pending, processing, success, failed, stopped
    #[arg(long, value_parser = word::<Phase>)]
    phase: Option<Phase>,
    /// Only tasks of this kind
    #[arg(long, short)]
    kind: Option<String>,
    /// Only tasks with this label
    #[arg(long, value_name = "KEY=VALUE")]
    label: Option<String>,
    /// Due at or after this time: RFC 3339, local time, or a duration from now or ago, such as 1h30m or "2d ago"
    #[arg(long, value_name = "INSTANT", value_parser = times::due)]
    due_after: Option<TimeBound>,
    /// Due before this time
    #[arg(long, value_name = "INSTANT", value_parser = times::due)]
    due_before: Option<TimeBound>,
    /// Order: -created_at (newest first), created_at (oldest first), due_at (next due first) or -due_at (latest due first)
    /// [default: newest first; with a range of due times, latest due first]
    #[arg(long, value_parser = word::<SortTasks>, allow_hyphen_values = true)]
    sort: Option<SortTasks>,
    /// Tasks per page
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// Continue after the page that printed this cursor
    #[arg(long)]
    cursor: Option<String>,
    /// Show all pages
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Reads a value as the wire spells it.
pub(crate) fn word<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let text: StrDeserializer<'_, serde::de::value::Error> = text.into_deserializer();
    T::deserialize(text).map_err(|error| punctual_protocol::fault_in_words(&error.to_string()))
}

pub(crate) async fn run(args: TaskListArgs) -> Result<ExitCode> {
    let client = args.connect.client(TRIES_OF_ONE_CALL)?;
    let (form, all) = (args.connect.form(), args.all);
    let mut search = args.into_search();
    loop {
        let page = full_page(&client, &search, form).await?;
        match form {
            Form::Json => output::json(&page)?,
            Form::Text => show::page(&page.items, SystemClock.now()),
        }
        let is_empty = page.items.is_empty() && page.next_cursor.is_none() && search.cursor.is_none();
        if is_empty && form == Form::Text {
            queue::say_if_unknown(&client, search.queue.as_deref()).await;
        }
        search.cursor = page.next_cursor;
        match &search.cursor {
            Some(_) if all => {}
            Some(cursor) => {
                if form == Form::Text {
                    output::error_line(&format!("more with --cursor {cursor}, or all with --all"));
                }
                return Ok(ExitCode::SUCCESS);
            }
            None => return Ok(ExitCode::SUCCESS),
        }
    }
}

/// A page that is full unless nothing more matches: where one call has not come so far, others go on.
async fn full_page(client: &Client, search: &SearchTasks, form: Form) -> Result<FoundTasks> {
    let (mut page, mut looked_at) = (client.search(search).await?, 0_u64);
    let wanted = search.limit.unwrap_or(PAGE_DEFAULT) as usize;
    loop {
        looked_at = looked_at.saturating_add(page.search.examined);
        page.search.examined = looked_at;
        let room = wanted.saturating_sub(page.items.len());
        if page.search.is_complete || page.next_cursor.is_none() || room == 0 {
            return Ok(page);
        }
        if form == Form::Text {
            output::error_line(&looked(looked_at, page.items.len()));
        }
        let next = SearchTasks {
            cursor: page.next_cursor.take(),
            limit: Some(u32::try_from(room).unwrap_or(u32::MAX)),
            ..search.clone()
        };
        let further = client.search(&next).await?;
        let mut items = page.items;
        items.extend(further.items);
        page = FoundTasks { items, ..further };
    }
}

fn looked(tasks: u64, found: usize) -> String {
    let found = output::count(found as u64);
    format!("looked at {} tasks so far, {found} found; looking on …", output::count(tasks))
}

impl TaskListArgs {
    fn into_search(self) -> SearchTasks {
        SearchTasks {
            queue: self.queue,
            state: self.state,
            phase: self.phase,
            kind: self.kind,
            label: self.label,
            due_after: self.due_after,
            due_before: self.due_before,
            sort: self.sort,
            limit: Some(self.limit),
            cursor: self.cursor,
            ..SearchTasks::default()
        }
    }
}
