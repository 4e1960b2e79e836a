//! Carries what is still needed out of an old bucket to the present, so that one stuck task does not keep ten million
//! that are over. A task is moved in time as by a reschedule, with the entry that its reference finds it by, and nothing
//! else of it changes: not its state, not its fence, not when it was asked for. Each batch is one transaction.

use super::{
    BucketService,
    calendar::TimeBucket,
    look::{Looks, PIECE_ROWS},
    row_key::RowKey,
};
use punctual_domain::time::Millis;

impl BucketService<'_> {
    /// False if the budget is spent, and the next run continues.
    pub(super) async fn carry(&mut self, bucket: &TimeBucket, looks: &mut Looks) -> sqlx::Result<bool> {
        while self.budget > 0 {
            self.budget -= 1;
            let Some(at) = looks.carrying(bucket) else { return Ok(true) };
            let end = self.session.piece(bucket, *at, PIECE_ROWS).await?;
            let piece = (*at, end.unwrap_or(RowKey::END));
            let rows = self.options.batch_rows.max(1);
            let needed = self.session.needed(bucket, piece, self.now, rows).await?;
            let to = self.present();
            self.report.carried += u64::try_from(self.session.carry(&needed, to).await?).unwrap_or_default();
            let is_full = u64::try_from(needed.len()).unwrap_or_default() >= u64::from(rows);
            match (needed.last().filter(|_| is_full), end) {
                (Some(last), _) => *at = RowKey::at(*last),
                (None, Some(end)) => *at = end,
                (None, None) => {
                    looks.forget(bucket);
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// A run lasts, and nothing may appear far behind the present.
    fn present(&self) -> Millis {
        self.now.plus(i64::try_from(self.began.elapsed().as_millis()).unwrap_or_default())
    }
}
