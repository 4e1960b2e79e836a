//! The flag for each field of the API, so that an error can name the flag that was typed. Must never import a
//! command: the process passes the command line at its beginning.

use clap::Command;
use std::sync::OnceLock;

/// Describes the command line. A function: it is built only where an error names a field.
static COMMAND_LINE: OnceLock<fn() -> Command> = OnceLock::new();

/// Keeps the description of the command line; the first call counts.
pub(crate) fn keep(command_line: fn() -> Command) {
    COMMAND_LINE.get_or_init(|| command_line);
}

/// The arguments as typed, without the name of the program.
pub(crate) fn arguments() -> impl Iterator<Item = String> {
    std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned())
}

/// The flag of the command that runs for a field of the API, `/delay_ms` or `/labels/a`: `--delay`, `--label`.
pub(crate) fn flag_of(pointer: &str) -> Option<String> {
    let command_line = COMMAND_LINE.get()?;
    flag_in(command_line(), arguments(), pointer)
}

pub(crate) fn flag_in(
    mut command: Command,
    arguments: impl Iterator<Item = String>,
    pointer: &str,
) -> Option<String> {
    for argument in arguments {
        let Some(below) = command.find_subcommand(&argument) else { continue };
        command = below.clone();
    }
    // Objects around the fields that flags are for.
    let around = |step: &&str| ["filter", "args", "task"].contains(step);
    let mut steps = pointer.strip_prefix('/')?.split('/').peekable();
    steps.next_if(around);
    let field = steps.next()?;
    let is_flag = |name: &str| command.get_arguments().any(|flag| flag.get_long() == Some(name));
    let whole = field.replace('_', "-");
    let short = |end: &str| whole.strip_suffix(end).map(str::to_owned);
    let of_time = whole.starts_with("execute-at").then(|| "at".to_owned());
    let names = [Some(whole.clone()), short("-ms"), short("s"), short("-per-second"), of_time];
    names.into_iter().flatten().find(|name| is_flag(name)).map(|name| format!("--{name}"))
}
