//! How a failure is told, and with which exit code: 1 refused or failed, 2 usage.

use crate::{config, look, output};
use punctual_protocol::Problem;
use std::process::ExitCode;

const USAGE: u8 = 2;

/// The whole chain of causes, the outermost first.
pub(crate) fn failed(error: &anyhow::Error) -> ExitCode {
    let mut causes = error.chain();
    if let Some(first) = causes.next() {
        output::error_line(&format!("{} {first}", look::failure("punctual:")));
    }
    for cause in causes {
        output::error_line(&format!("  because: {cause}"));
    }
    if let Some(problem) = error.chain().find_map(problem_of) {
        for fault in fields(problem) {
            output::error_line(&format!("  {fault}"));
        }
    }
    exit_code(error)
}

fn exit_code(error: &anyhow::Error) -> ExitCode {
    let usage = |it: &config::Error| it.is_usage();
    if error.downcast_ref().is_some_and(usage) { ExitCode::from(USAGE) } else { ExitCode::FAILURE }
}

fn problem_of<'a>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a Problem> {
    cause.downcast_ref::<punctual_sdk::Error>()?.problem()
}

/// Each field that is not valid, when the summary does not name it already.
fn fields(problem: &Problem) -> Vec<String> {
    if problem.errors.len() < 2 {
        return Vec::new();
    }
    problem.errors.iter().map(|it| format!("{}: {}", it.pointer, it.detail)).collect()
}

/// A refusal in one line.
pub(crate) fn reason(problem: &Problem) -> String {
    let faults = fields(problem).join("; ");
    let detail = if faults.is_empty() { &problem.detail } else { &faults };
    if detail.is_empty() {
        format!("{} ({})", problem.title, problem.code)
    } else {
        format!("{detail} ({})", problem.code)
    }
}
