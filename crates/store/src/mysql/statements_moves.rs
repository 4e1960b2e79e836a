//! The statements of moves, leases, scans and retention, by name. Their texts lie in `sql/mysql`, as the others.

use super::{
    alike::Alike,
    statements::{Many, sql},
};
use punctual_domain::state::Event;

pub(crate) const AT: &str = sql!("move/at.sql");
pub(crate) const LABELS: &str = sql!("label/of_task.sql");
pub(crate) const MOVED: &str = sql!("place/moved.sql");
pub(crate) const KEEP_PLACE: &str = sql!("place/keep.sql");
pub(crate) const CARRY: &str = sql!("place/carry.sql");

pub(crate) const GRANT: &str = sql!("lease/grant.sql");
pub(crate) const GRANT_READ: &str = sql!("lease/read.sql");
pub(crate) const HELD: &str = sql!("lease/held.sql");
pub(crate) const EXTEND: &str = sql!("lease/extend.sql");
pub(crate) const FIRED: &str = sql!("lease/fired.sql");
pub(crate) const STOP: &str = sql!("lease/stop.sql");
pub(crate) const LOG: &str = sql!("lease/log.sql");

pub(crate) static BATCH_ADD: Many = Many::new(sql!("ended/add.sql"));
pub(crate) const BATCHES: &str = sql!("ended/batches.sql");
pub(crate) const BATCH_LOOK: &str = sql!("ended/look.sql");
pub(crate) const BATCH_NEAR: &str = sql!("ended/near.sql");
pub(crate) const BATCH_GONE: &str = sql!("ended/gone.sql");

pub(crate) const OVERDUE_BOUND: &str = sql!("overdue/bound.sql");
pub(crate) const OVERDUE_LOOK: &str = sql!("overdue/look.sql");

pub(crate) const SCAN: &str = sql!("scan/scan.sql");
pub(crate) const SCAN_FIRST: &str = sql!("scan/first.sql");
pub(crate) const SCAN_INSTANT: &str = sql!("scan/instant.sql");
pub(crate) const SCAN_LEFT: &str = sql!("scan/left.sql");
pub(crate) const SCAN_UNFINISHED: &str = sql!("scan/unfinished.sql");
pub(crate) const SCAN_WALK: &str = sql!("scan/walk.sql");

pub(crate) const CURSOR: &str = sql!("retire/cursor.sql");
pub(crate) static CURSOR_KEEP: Many = Many::new(sql!("retire/cursor_keep.sql"));
pub(crate) const WALK: &str = sql!("retire/walk.sql");
pub(crate) const WALK_ON: &str = sql!("retire/walk_on.sql");
pub(crate) const SPAN_DUE: &str = sql!("retire/span_due.sql");
pub(crate) const SPAN_BEFORE: &str = sql!("retire/span_before.sql");
pub(crate) const SPAN_ROWS: &str = sql!("retire/span_rows.sql");
pub(crate) static SPAN_KEEP: Many = Many::new(sql!("retire/span_keep.sql"));
pub(crate) const SPAN_LAST: &str = sql!("retire/span_last.sql");
pub(crate) const SPAN_GONE: &str = sql!("retire/span_gone.sql");
pub(crate) const AHEAD: &str = sql!("retire/ahead.sql");
pub(crate) const OVER: &str = sql!("retire/over.sql");
pub(crate) const DELETE: &str = sql!("retire/delete.sql");
pub(crate) const REPLIES_OVER: &str = sql!("retire/replies.sql");

static CLAIM: Alike = Alike::new(sql!("alike/claim.sql"));
static DISPATCH: Alike = Alike::new(sql!("alike/dispatch.sql"));
static START: Alike = Alike::new(sql!("alike/start.sql"));
static SUCCEED: Alike = Alike::or_each(sql!("alike/succeed.sql"));

/// The guarded statement of an event for rows that are alike, where there is one.
pub(crate) const fn alike_of_event(event: Event) -> Option<&'static Alike> {
    match event {
        Event::Claim => Some(&CLAIM),
        Event::Dispatch => Some(&DISPATCH),
        Event::Start => Some(&START),
        Event::Succeed => Some(&SUCCEED),
        _ => None,
    }
}

/// The guarded statement of an event. None: only an insert makes it.
pub(crate) const fn of_event(event: Event) -> Option<&'static str> {
    Some(match event {
        Event::Replace => return None,
        Event::Unblock => sql!("move/unblock.sql"),
        Event::Claim => sql!("move/claim.sql"),
        Event::Reclaim => sql!("move/reclaim.sql"),
        Event::HandBack => sql!("move/hand_back.sql"),
        Event::Fire => sql!("move/fire.sql"),
        Event::Dispatch => sql!("move/dispatch.sql"),
        Event::FailDispatch => sql!("move/fail_dispatch.sql"),
        Event::Release => sql!("move/release.sql"),
        Event::Start => sql!("move/start.sql"),
        Event::Succeed => sql!("move/succeed.sql"),
        Event::Retry => sql!("move/retry.sql"),
        Event::Snooze => sql!("move/snooze.sql"),
        Event::Bury => sql!("move/bury.sql"),
        Event::Expire => sql!("move/expire.sql"),
        Event::DeadLetter => sql!("move/dead_letter.sql"),
        Event::Cancel => sql!("move/cancel.sql"),
        Event::Withdraw => sql!("move/withdraw.sql"),
        Event::Abort => sql!("move/abort.sql"),
        Event::Reschedule => sql!("move/reschedule.sql"),
        Event::Amend => sql!("move/amend.sql"),
        Event::Redrive => sql!("move/redrive.sql"),
        Event::Retire => sql!("move/retire.sql"),
    })
}
