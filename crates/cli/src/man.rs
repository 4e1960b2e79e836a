//! `punctual man`: the manual, made from the command line itself, so that it cannot say anything else.

use crate::{args::Cli, output};
use anyhow::{Context, Result};
use clap::{Args, Command, CommandFactory as _};
use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Print the manual page, or write the pages of all commands into a directory
#[derive(Args, Debug)]
pub(crate) struct ManArgs {
    /// Directory to write to, such as /usr/share/man/man1
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

pub(crate) fn run(args: &ManArgs) -> Result<ExitCode> {
    let mut cli = Cli::command();
    cli.build();
    match &args.to {
        Some(to) => write_all(&cli, "punctual", to)?,
        None => output::text(String::from_utf8_lossy(&page(&cli)?).trim_end()),
    }
    Ok(ExitCode::SUCCESS)
}

/// The page of a command that was built: it knows its full name.
fn page(command: &Command) -> Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page).context("the page cannot be made")?;
    Ok(page)
}

/// The command and all below it, each a page.
fn write_all(command: &Command, name: &str, to: &Path) -> Result<()> {
    let path = to.join(format!("{name}.1"));
    fs::write(&path, page(command)?).with_context(|| format!("{} cannot be written", path.display()))?;
    for below in command
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set() && subcommand.get_name() != "help")
    {
        write_all(below, &format!("{name}-{}", below.get_name()), to)?;
    }
    Ok(())
}
