//! Numbers by inbox. There are few: an operator names each.

use super::{
    INBOX_LAG, INBOX_OLDEST, INBOX_ROWS, INBOX_ROWS_REFUSED, INBOX_ROWS_WAITING,
    exposition::{Buckets, Exposition, seconds},
};
use punctual_inbox::{InboxReport, LAG_BOUNDS_MS, Relay};

pub(super) fn render(out: &mut Exposition, relays: &[Relay]) {
    let reports: Vec<InboxReport> = relays.iter().map(Relay::report).collect();
    let counted = || reports.iter().filter_map(|report| Some((report.name.as_str(), report.counts?)));
    out.begin(&INBOX_ROWS_WAITING);
    counted().for_each(|(name, counts)| out.sample(&INBOX_ROWS_WAITING, &[name], counts.waiting));
    out.begin(&INBOX_OLDEST);
    for (name, counts) in counted() {
        let oldest_ms = counts.oldest_ms.unwrap_or(0).max(0).unsigned_abs();
        out.sample(&INBOX_OLDEST, &[name], seconds(oldest_ms.saturating_mul(1_000)));
    }
    out.begin(&INBOX_ROWS_REFUSED);
    counted().for_each(|(name, counts)| out.sample(&INBOX_ROWS_REFUSED, &[name], counts.refused));
    out.begin(&INBOX_ROWS);
    for report in &reports {
        let numbers = report.numbers;
        for (outcome, rows) in [
            ("inserted", numbers.inserted),
            ("existing", numbers.existing),
            ("superseded", numbers.superseded),
            ("refused", numbers.refused),
            ("put_off", numbers.put_off),
        ] {
            out.sample(&INBOX_ROWS, &[&report.name, outcome], rows);
        }
    }
    out.begin(&INBOX_LAG);
    for report in &reports {
        let bounds_us = LAG_BOUNDS_MS.iter().map(|bound| bound.unsigned_abs() * 1_000);
        let sum_us = report.lag_sum_ms.saturating_mul(1_000);
        out.histogram(&INBOX_LAG, &[&report.name], Buckets::new(bounds_us, &report.lag, sum_us));
    }
}
