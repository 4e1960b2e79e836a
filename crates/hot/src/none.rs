//! The hot set and the signals of engines that run on their store alone, one or several. The hot set is
//! always empty: tasks fire from the store, which decides withdrawals that the engine's table does not, and
//! fired tasks wait in that table. There are no signals. Must not keep anything: two engines of one store
//! would each have their own copy.

use async_trait::async_trait;
use punctual_contract::{
    Error, Hot,
    hot::{HotEntry, Keeps, Wholeness, Withdrawn},
    ownership::{Signal, Signals, Tenure},
};
use punctual_domain::{place::Partition, time::Millis};

const NONE: &str = "there is no hot set (hot.url is empty)";

#[derive(Clone, Copy, Debug, Default)]
pub struct NoHot;

#[async_trait]
impl Hot for NoHot {
    fn keeps(&self) -> Keeps {
        Keeps::Nothing
    }

    async fn load(&self, _entries: Vec<HotEntry>) -> Result<usize, Error> {
        Err(Error::did_not_happen("load entries", NONE))
    }

    async fn drain(
        &self,
        tenures: &[Tenure],
        _until: Millis,
        _limit: usize,
    ) -> Vec<Result<Vec<HotEntry>, Error>> {
        tenures.iter().map(|_| Ok(Vec::new())).collect()
    }

    /// The store decides.
    async fn withdraw(&self, _partition: Partition, _id: i64, _fence: i64) -> Result<Withdrawn, Error> {
        Ok(Withdrawn::Absent)
    }

    async fn count_due(&self) -> Result<usize, Error> {
        Ok(0)
    }

    async fn is_whole(&self, _tenures: &[Tenure]) -> Result<Vec<Wholeness>, Error> {
        Err(Error::did_not_happen("look at the hot set", NONE))
    }

    async fn clear(&self, _tenure: Tenure) -> Result<(), Error> {
        Ok(())
    }

    async fn fullness(&self) -> Result<u32, Error> {
        Ok(0)
    }
}

/// Each engine reads the store so often that a signal would not be faster.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSignals;

#[async_trait]
impl Signals for NoSignals {
    async fn announce(&self, _signals: Vec<Signal>) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    async fn next(&self) -> Result<Vec<Signal>, Error> {
        std::future::pending().await
    }
}
