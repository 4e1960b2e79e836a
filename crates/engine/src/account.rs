//! Task counts of all queues, for answers and pages. One read serves all callers that wait for it.
//! The result is never older than the request, unless the caller accepts an older one. A caller that does is not delayed by
//! a slow read. Counts that must be exact for other reasons (caps, drains) are read elsewhere.

pub(crate) mod state;

use crate::engine::Engine;
use punctual_contract::Error;
use state::{Account, Last};
use std::{sync::Arc, time::Duration};
use tokio::{sync, time::Instant};

impl Engine {
    /// The counts of all queues, no older than this call or than `max_age`.
    ///
    /// # Errors
    /// A failing store.
    pub async fn account(&self, max_age: Duration) -> Result<Arc<Account>, Error> {
        let (accounts, asked_at) = (&self.core.accounts, Instant::now());
        if let Some(account) = accounts.last(|one| one.is_good(asked_at, max_age)) {
            return account;
        }
        if let Some(account) = accounts.last(|one| one.is_good_meanwhile(asked_at, max_age)) {
            if let Ok(reading) = Arc::clone(&accounts.reading).try_lock_owned() {
                let engine = self.clone();
                self.core.work.detach(async move { drop(engine.read_account(reading).await) });
            }
            return account;
        }
        let reading = Arc::clone(&accounts.reading).lock_owned().await;
        match accounts.last(|one| one.is_good(asked_at, max_age)) {
            Some(account) => account,
            None => self.read_account(reading).await,
        }
    }

    async fn read_account(&self, _reading: sync::OwnedMutexGuard<()>) -> Result<Arc<Account>, Error> {
        let began = Instant::now();
        let account = self.counted().await.map(Arc::new);
        let last = Last { began, done: Instant::now(), account: account.clone() };
        *self.core.accounts.last.lock() = Some(last);
        account
    }

    async fn counted(&self) -> Result<Account, Error> {
        let books = self.books().await?;
        // The due tasks of the hot set are not needed here. If it is unavailable, the lines are still shown.
        let depth = self.depth().await.unwrap_or_default();
        Ok(Account::new(books, depth.ready))
    }
}
