//! A limit of 10 under three engines while the master of Redis is killed and a Sentinel set promotes its replica, with all
//! writes replicated and with the last ones lost. By the executors' own account there are never more than 10 at once.
#![expect(clippy::print_stderr, reason = "what was measured is to be seen")]

use crate::{
    crash_points::{Ground as _, OnServers, Stand, WallClock, queue, succeeded},
    limits::set_queue,
};
use parking_lot::Mutex;
use punctual_contract::{Limiter, Store, store::Query};
use punctual_domain::{
    limits::Scope, name::Name, retry::RetryPolicy, settings::QueueSettings, state::State, task::NewTask,
};
use punctual_engine::{Backends, Engine, LeaseRequest, Options, Reported, Running};
use punctual_testkit::{
    patience::{HANG_LIMIT, a_moment, until},
    servers::{Redis, Sentinels},
};
use std::{collections::HashSet, sync::Arc};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, timeout},
};

const LIMIT: usize = 10;
const TASKS: usize = 300;
const ENGINES: usize = 3;
/// More than the limit: some wait, and would take any task that is granted beyond the limit.
const EXECUTORS: usize = 30;

/// How long executors work on their next tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Briefly,
    /// Until it is brief again.
    Long,
}

/// What executors do at the same time, by their own account.
#[derive(Debug, Default)]
struct FailoverWatch {
    running: HashSet<(i64, i64)>,
    long: usize,
    /// How many of their requests for a task were answered.
    asked: usize,
    most: usize,
    done: HashSet<i64>,
}

struct LimitsFailoverSite {
    engines: Vec<(Engine, Running)>,
    limiter: Arc<dyn Limiter>,
    store: Arc<dyn Store>,
    executors: JoinSet<()>,
    watch: Arc<Mutex<FailoverWatch>>,
    work: watch::Sender<Work>,
}

impl LimitsFailoverSite {
    async fn new(ground: &OnServers) -> Self {
        let (mut engines, mut current) = (Vec::new(), Vec::new());
        for nth in 0..ENGINES {
            let Stand { store, hot, limiter, bus, shared } = ground.stand().await;
            current.push((store.clone(), limiter.clone()));
            let backends =
                Backends { store, hot, limiter, bus, clock: Arc::new(WallClock), blobs: None, shared };
            let engine = Engine::new(backends, Options { name: format!("n{nth}"), ..Options::default() });
            let running = engine.start().unwrap();
            engines.push((engine, running));
        }
        let (store, limiter) = current.remove(0);
        let (watch, work) = (Arc::default(), watch::channel(Work::Briefly).0);
        Self { engines, limiter, store, executors: JoinSet::new(), watch, work }
    }

    async fn begin(&mut self) {
        let engine = self.engines[0].0.clone();
        let concurrency = Some(u32::try_from(LIMIT).unwrap());
        set_queue(&engine, &queue(), QueueSettings { concurrency, ..QueueSettings::default() }).await;
        // What has just been set, the other engines know within a second.
        let knows = |pair: &(Engine, Running)| pair.0.known_settings(&queue()).concurrency == concurrency;
        until("all know the limit", || async { self.engines.iter().all(knows) }).await;
        let new = |_| NewTask {
            max_attempts: 1_000,
            retry: RetryPolicy::Fixed { delay_ms: 0 },
            ..NewTask::new(queue(), Name::new("k").unwrap(), engine.now())
        };
        engine.insert((0..TASKS).map(new).collect(), "test").await.unwrap();
        for seed in 0..EXECUTORS {
            let engine = self.engines[seed % ENGINES].0.clone();
            let (watch, work) = (Arc::clone(&self.watch), self.work.subscribe());
            self.executors.spawn(executor(engine, watch, work, seed));
        }
    }

    async fn until(&self, what: &str, holds: impl Fn(&FailoverWatch) -> bool) {
        until(what, || async { holds(&self.watch.lock()) }).await;
    }

    /// While Redis is unavailable, the number is unknown.
    async fn until_slots_are(&self, held: usize) {
        until(&format!("{held} slots are held"), || async {
            let holders = self.limiter.holders(&Scope::Queue(queue()), 0).await;
            let is_whole = self.limiter.is_whole().await.unwrap_or(false);
            is_whole && holders.is_ok_and(|holders| holders.count == held)
        })
        .await;
    }

    /// How many run, and how many ran at most.
    fn at_once(&self) -> (usize, usize) {
        let watch = self.watch.lock();
        (watch.running.len(), watch.most)
    }

    async fn finish(mut self) -> usize {
        while let Some(ended) = timeout(HANG_LIMIT, self.executors.join_next()).await.unwrap() {
            ended.unwrap();
        }
        let query = Query { state: Some(State::Succeeded), limit: 2 * TASKS, ..Query::default() };
        assert_eq!(self.store.list(&query).await.unwrap().tasks.len(), TASKS);
        self.until_slots_are(0).await;
        for (_, running) in self.engines {
            running.stop().await;
        }
        self.watch.lock().most
    }
}

/// Takes tasks one at a time, and now and then drops a task, as an executor that is killed does.
async fn executor(
    engine: Engine,
    watch: Arc<Mutex<FailoverWatch>>,
    mut work: watch::Receiver<Work>,
    seed: usize,
) {
    let mut rng = fastrand::Rng::with_seed(u64::try_from(seed).unwrap());
    while watch.lock().done.len() < TASKS {
        let is_long = *work.borrow_and_update() == Work::Long;
        let (executor, queue) = (format!("e{seed}"), Arc::new(queue()));
        let lease_ms = if is_long { 120_000 } else { 2_000 };
        let request = LeaseRequest { queue, max: 1, wait_ms: 300, lease_ms, executor, version: None };
        let Ok(leased) = engine.lease(request).await else {
            a_moment().await;
            continue;
        };
        watch.lock().asked += 1;
        let Some(lease) = leased.first() else { continue };
        {
            let mut watch = watch.lock();
            watch.running.insert((lease.place.id, lease.fence));
            watch.most = watch.most.max(watch.running.len());
            watch.long += usize::from(is_long);
        }
        if is_long {
            drop(work.wait_for(|work| *work == Work::Briefly).await);
        } else {
            // Its work: a look or more at what it has.
            for _ in 0..rng.u8(1..20) {
                drop(engine.read(lease.place).await);
            }
        }
        watch.lock().running.remove(&(lease.place.id, lease.fence));
        if !is_long && rng.u8(..15) == 0 {
            continue;
        }
        let recorded = loop {
            match engine.record_outcomes(vec![succeeded(lease)], "test").await {
                Ok(recorded) => break recorded,
                Err(_) => a_moment().await,
            }
        };
        if recorded == [Reported::Accepted] {
            watch.lock().done.insert(lease.place.id);
        }
    }
}

/// The members that a server has, in hex.
async fn members(server: &Redis, prefix: &str) -> HashSet<String> {
    const SCRIPT: &str = "local t = {} for _, it in ipairs(redis.call('HKEYS', KEYS[1])) do t[#t + 1] = \
                          it:gsub('.', function(c) return ('%02x'):format(c:byte()) end) end return t";
    let key = format!("{prefix}:{{limits}}:members");
    let said = server.command(&["EVAL_RO", SCRIPT, "1", &key]).await;
    said.split_whitespace().map(str::to_owned).collect()
}

const MASTER: [&str; 3] = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster"];

/// From now on the replica receives nothing from the master.
async fn cut_replication(sentinels: &Sentinels) {
    sentinels.replica().command(&["CONFIG", "SET", "masteruser", "nobody"]).await;
    sentinels.replica().command(&["CONFIG", "SET", "masterauth", "wrong"]).await;
    sentinels.master().command(&["CLIENT", "KILL", "TYPE", "replica"]).await;
}

async fn master_dies(is_lossy: bool) {
    let sentinels = Sentinels::own().await;
    let ground = OnServers::at(sentinels.url()).await;
    let mut site = LimitsFailoverSite::new(&ground).await;
    site.begin().await;
    site.until("a third is done", |watch| watch.done.len() >= TASKS / 3).await;
    if is_lossy {
        cut_replication(&sentinels).await;
    }
    site.work.send_replace(Work::Long);
    site.until("the limit is used up", |watch| watch.long == LIMIT).await;
    assert_eq!(site.at_once().1, LIMIT, "before anything happens");
    let known = members(sentinels.replica(), ground.prefix()).await;
    let lost = members(sentinels.master(), ground.prefix()).await.difference(&known).count();
    assert!(!is_lossy || lost >= LIMIT / 2, "{lost} grants are to be lost");
    sentinels.master().kill();
    let killed = Instant::now();
    // The Sentinels are asked, since a server that changes its role hangs up on its clients.
    let promoted = format!("127.0.0.1\n{}", sentinels.replica().port());
    until("the replica is promoted", || async {
        sentinels.sentinels()[0].command(&MASTER).await == promoted
    })
    .await;
    let promoted = killed.elapsed();
    site.until_slots_are(LIMIT).await;
    let whole = killed.elapsed();
    // A caller that waits is granted what there is not, if there is any.
    let asked = site.watch.lock().asked;
    site.until("all have asked again", |watch| watch.asked > asked + 4 * EXECUTORS).await;
    let done = site.watch.lock().done.len();
    let (running, most) = site.at_once();
    assert_eq!((running, most), (LIMIT, LIMIT), "while the new master is asked");
    site.work.send_replace(Work::Briefly);
    site.until("it goes on", |watch| watch.done.len() > done + LIMIT).await;
    let most = site.finish().await;
    eprintln!(
        "{lost} grants lost: promoted after {promoted:?}, limiter whole after {whole:?}, finished and no slot held after \
         {:?}; at most {most} at once",
        killed.elapsed()
    );
    assert_eq!(most, LIMIT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_failover_that_loses_nothing_neither_breaks_the_limit_nor_leaks_a_slot() {
    master_dies(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_failover_that_loses_all_grants_that_are_in_use_neither_breaks_the_limit_nor_leaks_a_slot() {
    master_dies(true).await;
}
