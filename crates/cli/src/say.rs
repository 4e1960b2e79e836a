//! Reports failures, with their exit codes: 1 refused or failed, 2 usage.

use crate::{config, flags, output};
use punctual_protocol::{FieldError, Invalid, Problem};
use std::process::ExitCode;

const USAGE: u8 = 2;

/// Prints the complete chain of causes, the outermost first.
pub(crate) fn failed(error: &anyhow::Error) -> ExitCode {
    let faults = error.chain().find_map(faults_of).unwrap_or_default();
    let mut causes = error.chain().map(|cause| in_flags(&cause.to_string(), faults));
    if let Some(first) = causes.next() {
        output::failure(&first);
    }
    for cause in causes {
        cause.split('\n').enumerate().for_each(|(nth, line)| {
            let begins = if nth == 0 { "  because: " } else { "    " };
            output::error_line(&format!("{begins}{line}"));
        });
    }
    for fault in fields(faults) {
        output::error_line(&format!("  {}", in_flags(&fault, faults)));
    }
    exit_code(error)
}

/// Replaces fields of the API by the flags of the command, which the caller typed.
fn in_flags(said: &str, faults: &[FieldError]) -> String {
    let pointers = faults.iter().map(|fault| &fault.pointer);
    let named = pointers.filter_map(|pointer| Some((pointer, flags::flag_of(pointer)?)));
    let said = named.fold(said.to_owned(), |said, (pointer, flag)| {
        said.replace(&format!("{pointer}:"), &format!("{flag}:"))
    });
    if faults.is_empty() { said } else { fields_in_flags(&said, flags::flag_of) }
}

/// Each field that is named between backticks, where the command has a flag for it.
fn fields_in_flags(said: &str, flag_of: impl Fn(&str) -> Option<String>) -> String {
    let pieces: Vec<&str> = said.split('`').collect();
    let last = pieces.len().saturating_sub(1);
    let piece = |(nth, piece): (usize, &&str)| match nth % 2 {
        1 if nth < last => flag_of(&format!("/{piece}")).unwrap_or_else(|| format!("`{piece}`")),
        1 => format!("`{piece}"),
        _ => (*piece).to_owned(),
    };
    pieces.iter().enumerate().map(piece).collect()
}

fn exit_code(error: &anyhow::Error) -> ExitCode {
    let usage = |error: &config::Error| error.is_usage();
    if error.downcast_ref().is_some_and(usage) { ExitCode::from(USAGE) } else { ExitCode::FAILURE }
}

/// The faults by field: from the server's answer, or from the check before the request was sent.
fn faults_of<'a>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a [FieldError]> {
    let refused = cause.downcast_ref::<punctual_sdk::Error>().and_then(punctual_sdk::Error::problem);
    let faults = refused.map(|problem| &problem.errors);
    faults.or_else(|| cause.downcast_ref::<Invalid>().map(|invalid| &invalid.errors)).map(Vec::as_slice)
}

/// Each field that is not valid, when the summary does not name it already.
fn fields(faults: &[FieldError]) -> Vec<String> {
    if faults.len() < 2 {
        return Vec::new();
    }
    faults.iter().map(|fault| format!("{}: {}", fault.pointer, fault.detail)).collect()
}

/// A refusal in one line.
pub(crate) fn reason(problem: &Problem) -> String {
    let faults = fields(&problem.errors).join("; ");
    let detail = if faults.is_empty() { &problem.detail } else { &faults };
    if detail.is_empty() {
        format!("{} ({})", problem.title, problem.code)
    } else {
        format!("{detail} ({})", problem.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_between_backticks_are_named_as_flags_where_the_command_has_one() {
        let flag_of = |pointer: &str| (pointer == "/every_ms").then(|| "--every".to_owned());
        for (said, expected) in [
            ("give `cron`, `every_ms` or `at`", "give `cron`, --every or `at`"),
            ("`every_ms` `", "--every `"),
            ("one ` alone", "one ` alone"),
            ("every_ms", "every_ms"),
        ] {
            assert_eq!(fields_in_flags(said, flag_of), expected, "{said}");
        }
    }
}
