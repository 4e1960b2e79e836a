//! Subjects that are set aside, on the wire. Must not decide which are.

use punctual_contract::evaluations::{EvaluationKind, SetAside};
use punctual_protocol::{self as wire, At};

/// The entry of a subject. `None` if it is evaluated.
pub(crate) fn of(all: &[SetAside], id: i64) -> Option<wire::SetAside> {
    all.iter().find(|set_aside| set_aside.id == id).map(shown)
}

fn shown(set_aside: &SetAside) -> wire::SetAside {
    let way_out = match set_aside.kind {
        EvaluationKind::Schedule => "store it again, change it or resume it",
        EvaluationKind::Workflow => "retry or cancel it",
        EvaluationKind::Bulk => "resume or stop it",
    };
    let engines = set_aside.died;
    let reason = format!(
        "{engines} engines died or panicked while they evaluated it; to have it evaluated again, {way_out}"
    );
    wire::SetAside { since: At::from_ms(set_aside.since.0), since_ms: set_aside.since.0, reason }
}
