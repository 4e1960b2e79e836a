//! Reads the command line. If it is invalid, reports what is wrong in the terms of the caller and ends the process. Must never
//! name a command: each is described in its own file.

use crate::{flags, logs, output::clean};
use clap::{CommandFactory as _, Parser as _};
use punctual_protocol::fault_in_words;
use std::io::IsTerminal as _;

/// The messages of the parsers of single values.
const READERS: [&str; 6] = [
    "invalid digit found in string",
    "cannot parse integer from empty string",
    "number too large to fit in target type",
    "number too small to fit in target type",
    "invalid float literal",
    "cannot parse float from empty string",
];

/// The command, or the end of the process.
pub(crate) fn parsed() -> crate::args::Cli {
    flags::keep(crate::args::Cli::command);
    crate::args::Cli::try_parse().unwrap_or_else(|error| end(&of_clean_arguments(error)))
}

/// The same error, with arguments that have no line breaks: the parser quotes them as they were typed.
fn of_clean_arguments(error: clap::Error) -> clap::Error {
    let typed = flags::arguments().map(|argument| clean::line(&argument).into_owned());
    let again = crate::args::Cli::try_parse_from(std::iter::once("punctual".to_owned()).chain(typed));
    again.err().unwrap_or(error)
}

fn end(error: &clap::Error) -> ! {
    if !error.use_stderr() {
        // Help, or the version.
        error.exit()
    }
    let styled = error.render();
    let plain = styled.to_string();
    // Colours are the parser's own, unless the command line has an escape in it.
    let cleaned = clean::lines(&plain).into_owned();
    let has_colours = std::io::stderr().is_terminal() && cleaned == plain;
    let said = if has_colours { styled.ansi().to_string() } else { cleaned };
    logs::line(explained(&said).trim_end());
    std::process::exit(error.exit_code())
}

fn explained(said: &str) -> String {
    READERS.iter().fold(said.to_owned(), |said, reader| said.replace(reader, &fault_in_words(reader)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_told_as_the_flag_that_set_it() {
        let flag = |line: &str, pointer: &str| {
            flags::flag_in(crate::args::Cli::command(), line.split(' ').map(str::to_owned), pointer)
        };
        for (line, pointer, wanted) in [
            ("task insert --queue q", "/delay_ms", Some("--delay")),
            ("task insert", "/labels/a~1b", Some("--label")),
            ("task insert", "/execute_at", Some("--at")),
            ("task insert", "/max_attempts", Some("--max-attempts")),
            ("task insert", "/nothing", None),
            ("task insert", "", None),
            ("dead redrive", "/all", Some("--all")),
            ("bulk delete --label x", "/filter/label", Some("--label")),
            ("bulk cancel", "/filter", None),
            ("schedule create s", "/task/queue", Some("--queue")),
            ("schedule create s", "/every_ms", Some("--every")),
            ("schedule create s", "/cron", Some("--cron")),
            ("schedule create s", "/at", Some("--at")),
            ("dead redrive", "/rate_per_second", Some("--rate")),
            ("queue set mail", "/concurrency", None),
        ] {
            assert_eq!(flag(line, pointer).as_deref(), wanted, "{line} {pointer}");
        }
    }

    #[test]
    fn what_a_reader_of_numbers_says_is_told_in_words() {
        for line in [
            &["punctual", "task", "list", "--limit", "many"][..],
            &["punctual", "task", "insert", "--queue", "q", "--priority", "x"],
        ] {
            let error = crate::args::Cli::try_parse_from(line).unwrap_err();
            let said = explained(&error.render().to_string());
            assert!(said.contains("must be a whole number") && !said.contains("invalid digit"), "{said}");
        }
    }

    #[test]
    fn a_duration_below_zero_is_told_so_and_not_taken_for_flags() {
        let line = ["punctual", "task", "insert", "--queue", "q", "--delay", "-5s"];
        let said = crate::args::Cli::try_parse_from(line).unwrap_err().to_string();
        assert!(said.contains("--delay") && said.contains("below zero"), "{said}");
    }

    #[test]
    fn an_id_below_zero_is_a_value_and_a_retry_that_is_no_document_is_answered_with_its_forms() {
        let insert = ["punctual", "task", "insert", "--queue", "q"];
        let parsed = |more: &[&str]| crate::args::Cli::try_parse_from([&insert[..], more].concat());
        // The server refuses it, in words.
        assert!(parsed(&["--task-id", "-5"]).is_ok());
        assert!(crate::args::Cli::try_parse_from(["punctual", "task", "get", "--task-id", "-5"]).is_ok());
        let retry = parsed(&["--retry", "fixed"]).unwrap_err().to_string();
        assert!(retry.contains(r#"{"strategy":"fixed","delay_ms":"30s"}"#), "{retry}");
        assert!(!retry.contains("expected ident"), "{retry}");
    }

    #[test]
    fn a_word_that_is_not_known_names_those_that_are() {
        let line = ["punctual", "task", "list", "--state", "ded"];
        let said = crate::args::Cli::try_parse_from(line).unwrap_err().to_string();
        assert!(said.contains("did you mean `dead`?") && !said.contains("variant"), "{said}");
        let line =
            ["punctual", "task", "insert", "--queue", "q", "--retry", r#"{"strategy":"fixd","delay_ms":1}"#];
        let said = crate::args::Cli::try_parse_from(line).unwrap_err().to_string();
        assert!(said.contains("did you mean `fixed`?") && !said.contains("variant"), "{said}");
    }
}
