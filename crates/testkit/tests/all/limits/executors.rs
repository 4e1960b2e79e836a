//! Executors that say how many tasks they hold at most: over several queues and engines, never one more, and what ends is
//! free at once; on the embedded back ends and on real MySQL and Redis.

use super::*;
use punctual_contract::limiter::Member;
use punctual_domain::executor::Profile;
use punctual_engine::Heartbeat;

const MOST: u32 = 3;

fn other_queue() -> QueueKey {
    QueueKey { queue: Name::new("sms").unwrap(), ..queue() }
}

fn mailer() -> LimitScope {
    LimitScope::Executor(Name::default_namespace(), Name::new("mailer").unwrap())
}

fn asks(queue: QueueKey, max: usize, wait_ms: u64) -> LeaseRequest {
    let executor = "mailer".to_owned();
    LeaseRequest { queue: Arc::new(queue), max, wait_ms, lease_ms: 20_000, executor, version: None }
}

/// As the server does: first the outcomes, then the places.
async fn end(engine: &Engine, attempts: &[Assignment]) {
    let reports = attempts.iter().map(|attempt| report(attempt, Report::Succeeded)).collect();
    let recorded = engine.record_outcomes(reports, "mailer").await.unwrap();
    assert!(recorded.iter().all(|recorded| *recorded == Reported::Accepted), "{recorded:?}");
    let ended =
        attempts.iter().map(|attempt| Member { id: attempt.place.id, fence: attempt.fence }).collect();
    engine.give_up_places(ended).await.unwrap();
}

impl LimitsRig {
    async fn lease_within(&self, queue: QueueKey, most: u32) -> Vec<Assignment> {
        self.engine.lease_within(asks(queue, 9, 0), most).await.unwrap()
    }
}

#[tokio::test]
async fn an_executor_holds_no_more_than_it_says_over_all_its_queues() {
    let rig = LimitsRig::new(QueueSettings::default()).await;
    let of = |nth| NewTask { queue: if nth % 2 == 0 { queue() } else { other_queue() }, ..task(now(&rig)) };
    rig.insert((0..12).map(of).collect()).await;
    let first = rig.lease_within(queue(), MOST).await;
    assert_eq!((first.len(), rig.lease_within(other_queue(), MOST).await.len()), (3, 0));
    end(&rig.engine, &first[..2]).await;
    let second = rig.lease_within(other_queue(), MOST).await;
    assert_eq!((second.len(), rig.lease_within(queue(), MOST).await.len()), (2, 0));
    assert_eq!(rig.lease_within(queue(), MOST + 1).await.len(), 1, "what it says now counts");
    assert_eq!(rig.lease(9).await.len(), 2, "others have what is left: they say nothing");
    rig.pass(20_001).await;
    assert_eq!(rig.held(mailer()).await, 0, "their leases ended");
    assert_eq!(rig.lease_within(other_queue(), 1).await.len(), 1);
}

#[tokio::test]
async fn a_limit_of_the_queue_holds_for_such_an_executor_too() {
    let rig = LimitsRig::new(QueueSettings { concurrency: Some(2), ..QueueSettings::default() }).await;
    rig.insert((0..6).map(|_| task(now(&rig))).collect()).await;
    let first = rig.lease_within(queue(), MOST).await;
    assert_eq!((first.len(), rig.lease_within(queue(), MOST).await.len()), (2, 0));
    end(&rig.engine, &first).await;
    assert_eq!((rig.held(LimitScope::Queue(queue())).await, rig.held(mailer()).await), (0, 0));
}

#[tokio::test]
async fn an_executor_that_says_nothing_takes_no_place() {
    let rig = LimitsRig::new(QueueSettings::default()).await;
    rig.insert((0..6).map(|_| task(now(&rig))).collect()).await;
    assert_eq!(rig.lease(4).await.len(), 4);
    assert_eq!(rig.limiter.members(Millis::MAX, 0, 9).await.unwrap(), []);
}

/// Another process, with the same store and a limiter that knows nothing, reads in the registry who has a bound.
#[tokio::test]
async fn a_limiter_that_lost_its_members_knows_again_what_executors_hold() {
    let rig = LimitsRig::new(QueueSettings::default()).await;
    let profile = Profile { concurrency: Some(MOST), ..Profile::default() };
    let (namespace, name) = (Name::default_namespace(), Name::new("mailer").unwrap());
    let seen = Heartbeat { namespace, name, profile, alive_for_ms: 30_000, leaving: false };
    let _serve = rig.engine.executor_seen(seen);
    rig.insert((0..6).map(|_| task(now(&rig))).collect()).await;
    let running = rig.lease_within(queue(), 2).await;
    assert_eq!((running.len(), rig.lease(1).await.len()), (2, 1), "and one of another executor");
    rig.run_once().await;
    let limiter = Arc::new(MemoryLimiter::default());
    let backends = Backends {
        hot: Arc::new(NoHot),
        store: rig.store.clone(),
        limiter: limiter.clone(),
        bus: Arc::new(MemoryBus::default()),
        clock: Arc::new(rig.clock.clone()),
        blobs: None,
        shared: None,
    };
    let rig = LimitsRig { engine: Engine::new(backends, Options::default()), limiter, ..rig };
    assert_eq!(rig.lease_within(queue(), MOST).await, [], "not before it is whole");
    rig.run_once().await;
    assert_eq!(rig.held(mailer()).await, 2);
    assert_eq!(rig.lease_within(queue(), MOST).await.len(), 1);
    end(&rig.engine, &running).await;
    assert_eq!(rig.held(mailer()).await, 1);
}

/// Its callers at each engine and each queue, which work for a moment and report somewhere else than they asked.
struct Caller {
    engines: Vec<Engine>,
    watch: Arc<Mutex<SlotWatch>>,
    nth: usize,
}

impl Caller {
    async fn run(self, tasks: usize) {
        let mut rng = fastrand::Rng::with_seed(self.nth as u64);
        while self.watch.lock().unwrap().done.len() < tasks {
            let engine = &self.engines[rng.usize(..self.engines.len())];
            let from = if rng.bool() { queue() } else { other_queue() };
            let leased = engine.lease_within(asks(from, 4, 200), MOST).await.unwrap();
            {
                let mut watch = self.watch.lock().unwrap();
                watch.running.extend(leased.iter().map(|lease| (lease.place.id, lease.fence)));
                watch.most = watch.most.max(watch.running.len());
            }
            for _ in 0..rng.u32(0..300) {
                tokio::task::yield_now().await;
            }
            {
                let mut watch = self.watch.lock().unwrap();
                leased.iter().for_each(|lease| assert!(watch.running.remove(&(lease.place.id, lease.fence))));
            }
            end(&self.engines[rng.usize(..self.engines.len())], &leased).await;
            self.watch.lock().unwrap().done.extend(leased.iter().map(|lease| lease.place.id));
        }
    }
}

async fn never_above_its_own(ground: Arc<dyn Ground>, engines: usize, tasks: usize) {
    let (mut all, mut running, mut limiter) = (Vec::new(), Vec::new(), None);
    for nth in 0..engines {
        let Stand { store, hot, limiter: its, bus, shared } = ground.stand().await;
        limiter = Some(its.clone());
        let backends =
            Backends { store, hot, limiter: its, bus, clock: Arc::new(WallClock), blobs: None, shared };
        let engine = Engine::new(backends, Options { name: format!("n{nth}"), ..Options::default() });
        running.push(engine.start().unwrap());
        all.push(engine);
    }
    let of =
        |nth| NewTask { queue: if nth % 2 == 0 { queue() } else { other_queue() }, ..task(all[0].now()) };
    for _ in 0..tasks / 100 {
        all[0].insert((0..100).map(of).collect(), "test").await.unwrap();
    }
    let watch = Arc::new(Mutex::new(SlotWatch::default()));
    let mut callers = JoinSet::new();
    for nth in 0..4 {
        callers.spawn(Caller { engines: all.clone(), watch: watch.clone(), nth }.run(tasks));
    }
    while let Some(ended) = timeout(HANG_LIMIT, callers.join_next()).await.expect("all finish") {
        ended.unwrap();
    }
    assert_eq!(watch.lock().unwrap().most, MOST as usize, "the bound is reached and never passed");
    let held = limiter.unwrap().holders(&mailer(), 0).await.unwrap().count;
    assert_eq!(held, 0, "what was reported was given up, without the reconciler");
    for process in running {
        process.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn never_more_in_its_hands_than_an_executor_says_embedded() {
    never_above_its_own(Embedded::ground().await, 1, 300).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn never_more_in_its_hands_than_an_executor_says_on_servers() {
    never_above_its_own(OnServers::ground().await, 2, 300).await;
}

/// A call that waits learns of a place that another queue's task gave up, and of a task that fires.
#[tokio::test]
async fn an_executor_that_is_full_goes_on_as_soon_as_one_of_its_tasks_has_ended() {
    let rig = LimitsRig::new(QueueSettings::default()).await;
    for _ in 0..3 {
        let new = [queue(), other_queue()].map(|queue| NewTask { queue, ..task(now(&rig)) });
        rig.insert(new.to_vec()).await;
        let held = rig.lease_within(queue(), 1).await;
        assert_eq!(held.len(), 1);
        let mut waiting = pin!(rig.engine.lease_within(asks(other_queue(), 9, 20_000), 1));
        waits(waiting.as_mut()).await;
        let next = is_woken(async {
            end(&rig.engine, &held).await;
            waiting.await.unwrap()
        })
        .await;
        assert_eq!(next.len(), 1);
        end(&rig.engine, &next).await;
    }
}
