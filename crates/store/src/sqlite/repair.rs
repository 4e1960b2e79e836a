//! Makes account and register of a file what its rows are, after tasks that were lost were inserted again. In a file that no engine has
//! open; the rows stay as they are.

use super::{open, options::Options, state::SqliteStore, statements::sql};
use crate::{Error, ShardCheck, SqliteDoctor};
use std::path::Path;

impl SqliteStore {
    /// Corrects what a check finds; answers what it was.
    ///
    /// # Errors
    /// As `open`.
    pub fn repair(path: impl AsRef<Path>) -> Result<ShardCheck, Error> {
        let mut opened = open::file(path.as_ref(), &Options::default())?;
        let found = SqliteDoctor::new(&opened.path).check()?;
        if found.is_sound() {
            return Ok(found);
        }
        let path = opened.path.clone();
        let failed = |error| Error::opening(&path, error);
        let mut rewrite = || -> rusqlite::Result<()> {
            let transaction = opened.conn.transaction()?;
            for text in [
                sql!(ledger, delete_register),
                sql!(ledger, fill_register),
                sql!(ledger, delete_books),
                sql!(ledger, fill_books),
                sql!(ledger, correct_accepted),
                sql!(ledger, empty_partitions),
                sql!(ledger, fill_partitions),
                sql!(ledger, delete_reports),
            ] {
                transaction.execute(text, [])?;
            }
            transaction.commit()
        };
        rewrite().map_err(failed)?;
        Ok(found)
    }
}
