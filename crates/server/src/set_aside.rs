//! What is set aside, on the wire. Must not decide what is.

use punctual_contract::evaluations::{EvaluationKind, SetAside};
use punctual_protocol::{self as wire, At};

/// Of one of them. None: it is evaluated.
pub(crate) fn of(all: &[SetAside], id: i64) -> Option<wire::SetAside> {
    all.iter().find(|it| it.id == id).map(shown)
}

fn shown(it: &SetAside) -> wire::SetAside {
    let way_out = match it.kind {
        EvaluationKind::Schedule => "store it again, change it or resume it",
        EvaluationKind::Workflow => "retry or cancel it",
        EvaluationKind::Bulk => "resume or stop it",
    };
    let engines = it.died;
    let reason = format!(
        "{engines} engines died or panicked while they evaluated it; to have it evaluated again, {way_out}"
    );
    wire::SetAside { since: At::from_ms(it.since.0), since_ms: it.since.0, reason }
}
