//! What happens while entries go over from this process to the shared hot set: a shared one whose loads take their time, or
//! fail. Must not rest on timing: each step waits to be let go on.

use super::*;
use crate::{Options, memory::MemoryHot, memory::sample};
use std::collections::VecDeque;
use tokio::{
    sync::{Notify, Semaphore},
    task::JoinSet,
};

const P0: Partition = Partition(0);
const NOW: Millis = Millis(100);

/// What the next load does.
#[derive(Debug)]
enum Load {
    /// It waits, is done, and waits again before it answers.
    Slow,
    Fails(Happened),
}

/// A shared hot set whose loads take their time or fail, and that counts how often it is asked for what is due.
#[derive(Debug)]
struct Shared {
    truth: MemoryHot,
    loads: Mutex<VecDeque<Load>>,
    waits: Notify,
    goes_on: Semaphore,
    takes: AtomicUsize,
    takes_left: AtomicUsize,
}

fn failed(happened: Happened) -> Error {
    match happened {
        Happened::No => Error::did_not_happen("test", "refused"),
        Happened::Maybe => Error::may_have_happened("test", "no answer"),
    }
}

#[async_trait]
impl Hot for Shared {
    async fn load(&self, entries: Vec<HotEntry>) -> Result<usize, Error> {
        let next = self.loads.lock().pop_front();
        match next {
            None => self.truth.load(entries).await,
            Some(Load::Slow) => {
                self.waits.notify_one();
                self.goes_on.acquire().await.unwrap().forget();
                let loaded = self.truth.load(entries).await;
                self.waits.notify_one();
                self.goes_on.acquire().await.unwrap().forget();
                loaded
            }
            Some(Load::Fails(it)) => {
                if it == Happened::Maybe {
                    self.truth.load(entries).await?;
                }
                Err(failed(it))
            }
        }
    }
    async fn load_fired(&self, entries: Vec<HotEntry>) -> Result<usize, Error> {
        self.truth.load_fired(entries).await
    }
    async fn peek(
        &self,
        partition: Partition,
        after: Option<(Millis, i64)>,
        until: Millis,
        limit: usize,
    ) -> Result<Vec<HotEntry>, Error> {
        self.truth.peek(partition, after, until, limit).await
    }
    async fn take_settling(
        &self,
        tenure: Tenure,
        now: Millis,
        limit: usize,
        settled: &[(i64, i64)],
    ) -> Result<Vec<HotEntry>, Error> {
        self.takes.fetch_add(1, SeqCst);
        if self.takes_left.fetch_sub(1, SeqCst) == 0 {
            return Err(failed(Happened::No));
        }
        self.truth.take_settling(tenure, now, limit, settled).await
    }
    async fn withdraw(&self, partition: Partition, id: i64, fence: i64) -> Result<Withdrawn, Error> {
        self.truth.withdraw(partition, id, fence).await
    }
    async fn settle(&self, settled: &[(Partition, i64, i64)]) -> Result<(), Error> {
        self.truth.settle(settled).await
    }
    async fn offer(&self, entries: Vec<HotEntry>, retries: Retries) -> Result<(), Error> {
        self.truth.offer(entries, retries).await
    }
    async fn admit(&self, queue: &QueueKey, admission: Admission) -> Result<Vec<HotEntry>, Error> {
        self.truth.admit(queue, admission).await
    }
    async fn park(&self, lane: &Lane, entries: Vec<HotEntry>, retries: Retries) -> Result<(), Error> {
        self.truth.park(lane, entries, retries).await
    }
    async fn unpark(&self, queue: &QueueKey, lane: &Lane, limit: usize) -> Result<usize, Error> {
        self.truth.unpark(queue, lane, limit).await
    }
    async fn lanes(
        &self,
        queue: &QueueKey,
        after: Option<&Lane>,
        limit: usize,
    ) -> Result<Vec<(Lane, usize)>, Error> {
        self.truth.lanes(queue, after, limit).await
    }
    async fn firing(
        &self,
        partition: Partition,
        before: Millis,
        places: Range<usize>,
    ) -> Result<Vec<HotEntry>, Error> {
        self.truth.firing(partition, before, places).await
    }
    async fn depth(&self) -> Result<Depth, Error> {
        self.truth.depth().await
    }
    async fn is_whole(&self, tenures: &[Tenure]) -> Result<Vec<Wholeness>, Error> {
        self.truth.is_whole(tenures).await
    }
    async fn clear(&self, tenure: Tenure) -> Result<(), Error> {
        self.truth.clear(tenure).await
    }
    async fn fullness(&self) -> Result<u32, Error> {
        self.truth.fullness().await
    }
}

struct Stand {
    shared: Arc<Shared>,
    near: Arc<NearHot>,
}

impl Stand {
    fn new() -> Self {
        let shared = Arc::new(Shared {
            truth: MemoryHot::new(Options { partitions: 2 }),
            loads: Mutex::default(),
            waits: Notify::new(),
            goes_on: Semaphore::new(0),
            takes: AtomicUsize::new(0),
            takes_left: AtomicUsize::new(usize::MAX),
        });
        let near = Arc::new(NearHot::new(shared.clone(), 2));
        Self { shared, near }
    }

    /// It keeps these, due at `NOW`.
    async fn keeping(ids: Range<i64>) -> Self {
        let it = Self::new();
        it.near.load_near(ids.map(|id| sample(id, NOW.0, 1)).collect()).await.unwrap();
        it
    }

    async fn take(&self) -> Vec<i64> {
        let taken = self.near.take(Tenure::sole(P0), NOW, 100).await.unwrap();
        taken.iter().map(|it| it.place.id).collect()
    }

    /// Until the next step of a slow load.
    async fn until_it_waits(&self) {
        self.shared.waits.notified().await;
    }

    fn goes_on(&self) {
        self.shared.goes_on.add_permits(1);
    }

    fn next_load(&self, what: Load) {
        self.shared.loads.lock().push_back(what);
    }
}

#[tokio::test]
async fn what_is_near_fires_without_the_shared_one_being_asked() {
    let it = Stand::keeping(1..4).await;
    it.near.peek(P0, None, Millis(1_000), 10).await.unwrap();
    it.near.take(Tenure::sole(P0), Millis(99), 100).await.unwrap();
    let asked = it.shared.takes.load(SeqCst);
    assert_eq!(it.take().await, [1, 2, 3]);
    assert_eq!(it.shared.takes.load(SeqCst), asked);
    assert_eq!(it.shared.truth.depth().await.unwrap(), Depth::default());
    assert_eq!(it.near.depth().await.unwrap().firing, 3);
}

#[tokio::test]
async fn what_goes_over_fires_once_and_is_withdrawn_where_it_arrives() {
    let it = Stand::keeping(1..3).await;
    it.next_load(Load::Slow);
    let near = Arc::clone(&it.near);
    let mut sharing = JoinSet::new();
    sharing.spawn(async move { near.share(None).await.unwrap() });
    it.until_it_waits().await;
    assert!(it.take().await.is_empty(), "on its way");
    assert_eq!(it.near.withdraw(P0, 1, 1).await.unwrap(), Withdrawn::Absent, "the store decides");
    it.goes_on();
    it.until_it_waits().await;
    assert_eq!(it.near.withdraw(P0, 1, 1).await.unwrap(), Withdrawn::Removed);
    assert_eq!(it.take().await, [2], "before the answer is there");
    it.goes_on();
    assert_eq!(sharing.join_next().await.unwrap().unwrap(), 2);
    assert!(it.take().await.is_empty());
    assert_eq!(it.near.depth().await.unwrap(), Depth { firing: 1, ..Depth::default() });
    assert!(it.near.keeps_nothing());
}

#[tokio::test]
async fn what_did_not_go_over_comes_back_and_what_may_have_goes_again() {
    let it = Stand::keeping(1..3).await;
    it.next_load(Load::Fails(Happened::No));
    it.near.share(None).await.unwrap_err();
    assert_eq!(it.take().await, [1, 2], "it is here as before");
    let it = Stand::keeping(1..3).await;
    it.next_load(Load::Fails(Happened::Maybe));
    it.near.share(None).await.unwrap_err();
    assert_eq!(it.near.withdraw(P0, 1, 1).await.unwrap(), Withdrawn::Removed);
    assert_eq!(it.take().await, [2], "there, and only there");
    assert_eq!(it.near.depth().await.unwrap().due, 2, "it is not known here that they have arrived");
    assert_eq!(it.near.share(Some(Partition(1))).await.unwrap(), 0, "of another partition");
    it.next_load(Load::Fails(Happened::No));
    it.near.share(Some(P0)).await.unwrap_err();
    assert!(it.take().await.is_empty(), "a refusal now says nothing of the first time");
    it.near.share(Some(P0)).await.unwrap();
    assert!(it.near.keeps_nothing());
}

#[tokio::test]
async fn what_fires_goes_over_when_it_is_offered() {
    let it = Stand::keeping(1..3).await;
    let queue = sample(1, 1, 1).queue;
    // The preloader has found it in the store before it was loaded here.
    it.shared.truth.load(vec![sample(1, NOW.0, 1)]).await.unwrap();
    let here = it.near.take_near(Tenure::sole(P0), NOW, 100, &[]);
    it.near.offer(here, Retries::default()).await.unwrap();
    assert!(it.near.keeps_nothing());
    let mut admitted = it.near.admit(&queue, Admission::of(9)).await.unwrap();
    admitted.sort_by_key(|it| it.place.id);
    assert_eq!(admitted.iter().map(|it| it.place.id).collect::<Vec<_>>(), [1, 2]);
    assert!(it.take().await.is_empty(), "it does not fire again");
}

#[tokio::test]
async fn what_was_taken_is_told_although_the_next_question_fails() {
    let it = Stand::keeping(1..3).await;
    let far = (10..110).map(|id| sample(id, NOW.0 - 1, 1)).collect();
    it.near.load(far).await.unwrap();
    it.shared.takes_left.store(1, SeqCst);
    let taken = it.near.take(Tenure::sole(P0), NOW, 100).await.unwrap();
    assert_eq!(taken.len(), 98, "as many as there was room for beside what is here");
    it.shared.takes_left.store(usize::MAX, SeqCst);
    assert_eq!(it.take().await.len(), 4);
}

#[tokio::test]
async fn too_many_go_to_the_shared_one() {
    let it = Stand::new();
    it.near.kept.store(NEAR_MAX, SeqCst);
    it.near.load_near(vec![sample(1, NOW.0, 1)]).await.unwrap();
    assert_eq!(it.shared.truth.depth().await.unwrap().due, 1);
}
