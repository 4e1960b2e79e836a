//! Random steps against a hot set and against a plain model of it. After each step both must agree; where the
//! contract leaves the order open, results are checked against its promises. At the end everything is
//! drained, so that no entry is missed.

use super::{PARTITIONS, entry, in_partition, queue};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use punctual_contract::{
    Hot,
    hot::{HotEntry, Wholeness, Withdrawn},
    ownership::Tenure,
};
use punctual_domain::{name::QueueKey, place::Partition, task::Priority, time::Millis};
use std::{collections::BTreeMap, future::Future, sync::Arc};

/// A partition, and by how much the term of a step is older or newer than the newest that was seen there.
type Asked = (Partition, i64);

#[derive(Clone, Debug)]
enum HotStep {
    Load(Vec<HotEntry>),
    /// Drains each partition once at most.
    Drain {
        asked: Vec<Asked>,
        until: Millis,
        limit: usize,
    },
    Withdraw {
        partition: Partition,
        id: i64,
        fence: i64,
    },
    Clear(Asked),
    IsWhole(Vec<Asked>),
}

/// Few ids, times and fences, so that they meet.
const IDS: i64 = 6;
const TIMES: i64 = 12;
const FENCES: i64 = 4;
/// The first term of a partition.
const FIRST_TERM: i64 = 5;

fn partition_of(id: i64) -> u16 {
    u16::try_from(id).unwrap() % 2 * (PARTITIONS - 1)
}

fn queue_of(id: i64) -> QueueKey {
    queue(if id % 3 == 0 { "sms" } else { "mail" })
}

/// Ids 1 and 2, 4 and 5 are two versions of one task each.
fn of_task(entry: HotEntry) -> HotEntry {
    let id = entry.place.id;
    HotEntry {
        queue: Arc::new(queue_of(id)),
        task_id: id / 3,
        task_version: id,
        ..in_partition(partition_of(id), entry)
    }
}

prop_compose! {
    fn entries()(id in 0..IDS, due_at in 0..TIMES, fence in 1..=FENCES, level in 1..=3_u8) -> HotEntry {
        HotEntry { priority: Priority::new(level).unwrap(), ..of_task(entry(id, due_at, fence)) }
    }
}

fn steps() -> impl Strategy<Value = HotStep> {
    let term = || prop_oneof![8 => Just(0_i64), 1 => Just(-1), 1 => Just(1)];
    let asked = move || (0..2_i64, term()).prop_map(|(id, term)| (Partition(partition_of(id)), term));
    let each_once = move || {
        (1..=2_usize, 0..2_i64, term(), term()).prop_map(|(count, first, one, other)| {
            let both = [(first, one), (1 - first, other)];
            both.iter()
                .take(count)
                .map(|(id, term)| (Partition(partition_of(*id)), *term))
                .collect::<Vec<_>>()
        })
    };
    let time = || (0..TIMES).prop_map(Millis);
    let addressed = || (0..IDS, 1..=FENCES).prop_map(|(id, fence)| (Partition(partition_of(id)), id, fence));
    prop_oneof![
        4 => prop::collection::vec(entries(), 0..5).prop_map(HotStep::Load),
        4 => (each_once(), time(), 0..4_usize)
            .prop_map(|(asked, until, limit)| HotStep::Drain { asked, until, limit }),
        2 => addressed().prop_map(|(partition, id, fence)| HotStep::Withdraw { partition, id, fence }),
        1 => asked().prop_map(HotStep::Clear),
        1 => each_once().prop_map(HotStep::IsWhole),
    ]
}

#[derive(Debug, Default)]
struct Model {
    due: BTreeMap<i64, HotEntry>,
    /// The newest term, by partition, that has drained or cleared, and that has asked if it is complete.
    terms: BTreeMap<Partition, i64>,
    notes: BTreeMap<Partition, i64>,
}

impl Model {
    fn tenure(&self, (partition, distance): Asked) -> Tenure {
        let newest = self.terms.get(&partition).max(self.notes.get(&partition));
        Tenure { partition, term: newest.copied().unwrap_or(FIRST_TERM) + distance }
    }

    fn tenures(&self, asked: &[Asked]) -> Vec<Tenure> {
        asked.iter().map(|asked| self.tenure(*asked)).collect()
    }

    fn load(&mut self, entries: &[HotEntry]) -> usize {
        let mut put = 0;
        for entry in entries {
            if self.due.get(&entry.place.id).is_none_or(|known| known.fence < entry.fence) {
                self.due.insert(entry.place.id, entry.clone());
                put += 1;
            }
        }
        put
    }

    /// False if a newer one was seen.
    fn see(&mut self, tenure: Tenure) -> bool {
        let newest = self.terms.entry(tenure.partition).or_insert(tenure.term);
        *newest = tenure.term.max(*newest);
        *newest == tenure.term
    }

    fn drain(&mut self, tenure: Tenure, until: Millis, limit: usize) -> Vec<HotEntry> {
        if !self.see(tenure) {
            return Vec::new();
        }
        let is_due = |entry: &&HotEntry| entry.place.partition == tenure.partition && entry.due_at <= until;
        let mut drained: Vec<HotEntry> = self.due.values().filter(is_due).cloned().collect();
        drained.sort_by_key(HotEntry::key);
        drained.truncate(limit);
        for entry in &drained {
            self.due.remove(&entry.place.id);
        }
        drained
    }

    fn withdraw(&mut self, id: i64, fence: i64) -> Withdrawn {
        if self.due.get(&id).is_some_and(|entry| entry.fence <= fence) {
            self.due.remove(&id);
            return Withdrawn::Removed;
        }
        Withdrawn::Absent
    }

    fn clear(&mut self, tenure: Tenure) {
        if self.see(tenure) {
            self.due.retain(|_, entry| entry.place.partition != tenure.partition);
        }
    }

    fn is_whole(&mut self, Tenure { partition, term }: Tenure) -> Wholeness {
        let note = self.notes.get(&partition).copied();
        match note.max(self.terms.get(&partition).copied()) {
            Some(newest) if newest > term => Wholeness::NewerTerm(newest),
            _ if note == Some(term) => Wholeness::Whole,
            _ => {
                self.notes.insert(partition, term);
                Wholeness::Lost
            }
        }
    }
}

async fn step(hot: &dyn Hot, model: &mut Model, step: HotStep) -> Result<(), TestCaseError> {
    match step {
        HotStep::Load(entries) => {
            let put = model.load(&entries);
            prop_assert_eq!(hot.load(entries).await.unwrap(), put);
        }
        HotStep::Drain { asked, until, limit } => {
            let tenures = model.tenures(&asked);
            drain(hot, model, &tenures, until, limit).await?;
        }
        HotStep::Withdraw { partition, id, fence } => {
            let said = hot.withdraw(partition, id, fence).await.unwrap();
            prop_assert_eq!(said, model.withdraw(id, fence));
        }
        HotStep::Clear(asked) => {
            let tenure = model.tenure(asked);
            hot.clear(tenure).await.unwrap();
            model.clear(tenure);
        }
        HotStep::IsWhole(asked) => {
            let tenures = model.tenures(&asked);
            let wanted: Vec<Wholeness> = tenures.iter().map(|tenure| model.is_whole(*tenure)).collect();
            prop_assert_eq!(hot.is_whole(&tenures).await.unwrap(), wanted);
        }
    }
    check(hot, model).await
}

async fn drain(
    hot: &dyn Hot,
    model: &mut Model,
    tenures: &[Tenure],
    until: Millis,
    limit: usize,
) -> Result<(), TestCaseError> {
    let answers = hot.drain(tenures, until, limit).await;
    prop_assert_eq!(answers.len(), tenures.len(), "an answer a tenure");
    for (tenure, answer) in tenures.iter().zip(answers) {
        prop_assert_eq!(answer.unwrap(), model.drain(*tenure, until, limit));
    }
    Ok(())
}

async fn check(hot: &dyn Hot, model: &Model) -> Result<(), TestCaseError> {
    prop_assert_eq!(hot.count_due().await.unwrap(), model.due.len());
    Ok(())
}

/// Checks that nothing is left when all has been drained.
async fn empty(hot: &dyn Hot, model: &mut Model) -> Result<(), TestCaseError> {
    let tenures = model.tenures(&[(Partition(0), 0), (Partition(PARTITIONS - 1), 0)]);
    drain(hot, model, &tenures, Millis(TIMES), 100).await?;
    prop_assert!(model.due.is_empty());
    check(hot, model).await
}

/// Plays `cases` random lists of steps, each on a fresh hot set, and shrinks what fails.
///
/// # Panics
/// When the two differ.
pub fn agrees_with<F: Future<Output = Arc<dyn Hot>>>(cases: u32, fresh: impl Fn() -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let lists = prop::collection::vec(steps(), 0..60);
    let outcome = TestRunner::new(config).run(&lists, |list| {
        runtime.block_on(async {
            let (hot, mut model) = (fresh().await, Model::default());
            for next in list {
                step(&*hot, &mut model, next).await?;
            }
            empty(&*hot, &mut model).await
        })
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}
