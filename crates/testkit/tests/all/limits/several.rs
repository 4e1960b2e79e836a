//! One call for several queues, and executors that accept only some kinds: never more tasks than requested,
//! none of the queues always behind the others, and a caller that goes away loses nothing; on the embedded
//! back ends and on real MySQL and Redis. Seen to fail: with queues in the order of their names; with more
//! than `max`; with a wake-up that does not lead to its queue; with leases that are not returned; with a
//! filter that keeps everything.

use super::*;
use punctual_engine::{Only, Running};

const QUEUES: [&str; 3] = ["mail", "sms", "push"];

fn of(name: &str) -> QueueKey {
    QueueKey { queue: Name::new(name).unwrap(), ..queue() }
}

fn asks(name: &str, max: usize, wait_ms: u64) -> LeaseRequest {
    let executor = "several".to_owned();
    LeaseRequest { queue: Arc::new(of(name)), max, wait_ms, lease_ms: 60_000, executor, version: None }
}

fn any(names: &[&str], max: usize, wait_ms: u64) -> Vec<LeaseRequest> {
    names.iter().map(|name| asks(name, max, wait_ms)).collect()
}

fn kinds(names: &[&str]) -> Only {
    Only { kinds: Some(names.iter().map(|name| Name::new(name).unwrap()).collect()), ..Only::default() }
}

fn of_kind(name: &str, kind: &str, at: Millis) -> NewTask {
    NewTask { max_attempts: 1, ..NewTask::new(of(name), Name::new(kind).unwrap(), at) }
}

async fn record_outcomes(engine: &Engine, leased: &[Assignment]) {
    let reports = leased.iter().map(|lease| report(lease, Report::Succeeded)).collect();
    let recorded = engine.record_outcomes(reports, "several").await.unwrap();
    assert!(recorded.iter().all(|recorded| *recorded == Reported::Accepted), "{recorded:?}");
}

/// Engines that run by themselves.
pub(super) struct SharedLimitSite {
    engines: Vec<Engine>,
    running: Vec<Running>,
}

impl SharedLimitSite {
    pub(super) async fn of(ground: Arc<dyn Ground>, engines: usize) -> Self {
        let mut site = Self { engines: Vec::new(), running: Vec::new() };
        for nth in 0..engines {
            let Stand { store, hot, limiter, bus, shared } = ground.stand().await;
            let backends =
                Backends { store, hot, limiter, bus, clock: Arc::new(WallClock), blobs: None, shared };
            let options = Options { name: format!("n{nth}"), ..Options::default() };
            let engine = Engine::new(backends, options);
            site.running.push(engine.start().unwrap());
            site.engines.push(engine);
        }
        site
    }

    pub(super) fn engine(&self, nth: usize) -> &Engine {
        &self.engines[nth % self.engines.len()]
    }

    pub(super) async fn insert(&self, tasks: Vec<NewTask>) {
        self.engines[0].insert(tasks, "test").await.unwrap();
    }

    pub(super) async fn stop(self) {
        for process in self.running {
            process.stop().await;
        }
    }
}

#[tokio::test]
async fn each_of_several_queues_comes_first_as_often_as_the_others_and_never_more_than_asked_for() {
    fastrand::seed(7);
    let rig = LimitsRig::new(QueueSettings::default()).await;
    let many = QUEUES.iter().flat_map(|queue| (0..300).map(|_| of_kind(queue, "k", now(&rig))));
    rig.insert(many.collect()).await;
    let mut first = BTreeMap::<Name, usize>::new();
    for _ in 0..60 {
        let leased = rig.engine.lease_from_several(any(&QUEUES, 9, 0), 4, Only::default()).await.unwrap();
        assert_eq!(leased.len(), 4);
        *first.entry(leased[0].queue.queue.clone()).or_default() += 1;
    }
    assert!(first.len() == 3 && first.values().all(|number| *number >= 8), "{first:?}");
}

#[tokio::test]
async fn each_queue_gives_at_most_what_its_own_request_says() {
    let rig = LimitsRig::new(QueueSettings { concurrency: Some(5), ..QueueSettings::default() }).await;
    let many = QUEUES.iter().flat_map(|queue| (0..10).map(|_| of_kind(queue, "k", now(&rig))));
    rig.insert(many.collect()).await;
    let asked = vec![asks("mail", 9, 0), asks("sms", 2, 0), asks("push", 1, 0)];
    let leased = rig.engine.lease_from_several(asked, 100, Only::default()).await.unwrap();
    let count = |name: &str| leased.iter().filter(|lease| lease.queue == of(name)).count();
    assert_eq!(QUEUES.map(count), [5, 2, 1], "and a limit of the queue's own holds");
    let bound = Only { concurrency: Some(3), ..Only::default() };
    let leased = rig.engine.lease_from_several(any(&["sms", "push"], 9, 0), 9, bound).await.unwrap();
    assert_eq!(leased.len(), 3, "so does the executor's, over all of them");
}

/// Waits at queues that have nothing, and learns of a task of any of them.
async fn one_wait_is_for_any(ground: Arc<dyn Ground>) {
    let site = SharedLimitSite::of(ground, 1).await;
    for name in ["push", "sms", "mail"] {
        let engine = site.engine(0).clone();
        let mut waiting = JoinSet::new();
        let wait_ms = HANG_LIMIT.as_secs() * 1_000;
        waiting.spawn(async move {
            engine.lease_from_several(any(&QUEUES, 9, wait_ms), 9, Only::default()).await.unwrap()
        });
        until("it waits at all of them", || async {
            QUEUES.iter().all(|queue| site.engine(0).waiting(&of(queue)) > 0)
        })
        .await;
        site.insert(vec![of_kind(name, "k", site.engine(0).now())]).await;
        let leased = waiting.join_next().await.unwrap().unwrap();
        assert_eq!(leased.len(), 1);
        assert_eq!(leased[0].queue, of(name));
        record_outcomes(site.engine(0), &leased).await;
    }
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_wait_is_for_any_of_several_queues_embedded() {
    one_wait_is_for_any(Embedded::ground().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_wait_is_for_any_of_several_queues_on_servers() {
    one_wait_is_for_any(OnServers::ground().await).await;
}

#[tokio::test]
async fn one_wait_is_woken_by_any_of_several_queues() {
    let rig = LimitsRig::new(QueueSettings::default()).await;
    for name in ["push", "sms", "mail"] {
        let mut waiting = pin!(rig.engine.lease_from_several(any(&QUEUES, 9, 30_000), 9, Only::default()));
        waits(waiting.as_mut()).await;
        let leased = is_woken(async {
            rig.insert(vec![of_kind(name, "k", now(&rig))]).await;
            waiting.await.unwrap()
        })
        .await;
        assert_eq!(leased.iter().map(|leased| leased.queue.clone()).collect::<Vec<_>>(), [of(name)]);
        record_outcomes(&rig.engine, &leased).await;
    }
}

/// Asks for several queues, and drops every third call at a random moment. The first worker asks for one of
/// the queues.
async fn work(engine: Engine, nth: u64, done: Arc<Mutex<HashSet<i64>>>, tasks: usize) {
    let mut rng = fastrand::Rng::with_seed(nth);
    while done.lock().unwrap().len() < tasks {
        let call = engine.lease_from_several(any(&QUEUES, 3, 100), 5, Only::default());
        let leased = if nth == 0 {
            engine.lease(asks("mail", 5, 100)).await.unwrap()
        } else if !rng.u8(..).is_multiple_of(3) {
            call.await.unwrap()
        } else {
            let mut call = Box::pin(call);
            let mut polls = rng.u32(1..400);
            let gone = std::future::poll_fn(|context| {
                polls -= 1;
                match call.as_mut().poll(context) {
                    std::task::Poll::Ready(leased) => std::task::Poll::Ready(Some(leased)),
                    std::task::Poll::Pending if polls == 0 => std::task::Poll::Ready(None),
                    std::task::Poll::Pending => {
                        context.waker().wake_by_ref();
                        std::task::Poll::Pending
                    }
                }
            });
            gone.await.map(|result| result.unwrap()).unwrap_or_default()
        };
        assert!(leased.len() <= 5);
        for name in QUEUES.iter().filter(|_| nth > 0) {
            assert!(leased.iter().filter(|lease| lease.queue == of(name)).count() <= 3, "{leased:?}");
        }
        record_outcomes(&engine, &leased).await;
        let mut done = done.lock().unwrap();
        leased.iter().for_each(|lease| assert!(done.insert(lease.place.id), "each once"));
    }
}

/// Each task has one attempt: one whose lease was lost would be dead, and the count never full.
async fn whoever_goes_loses_nothing(ground: Arc<dyn Ground>, engines: usize) {
    const TASKS: usize = 300;
    let site = SharedLimitSite::of(ground, engines).await;
    let at = site.engine(0).now().plus(1_000);
    let many = (0..TASKS).map(|nth| of_kind(QUEUES[nth % 3], "k", at.plus(i64::try_from(nth).unwrap() / 3)));
    site.insert(many.collect()).await;
    let done = Arc::new(Mutex::new(HashSet::new()));
    let mut callers = JoinSet::new();
    for nth in 0..5 {
        callers.spawn(work(site.engine(nth).clone(), nth as u64, done.clone(), TASKS));
    }
    let all = timeout(HANG_LIMIT, callers.join_all()).await;
    assert!(all.is_ok(), "{} of {TASKS} ran", done.lock().unwrap().len());
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_asks_for_several_queues_and_goes_loses_nothing_embedded() {
    whoever_goes_loses_nothing(Embedded::ground().await, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_asks_for_several_queues_and_goes_loses_nothing_on_servers() {
    whoever_goes_loses_nothing(OnServers::ground().await, 2).await;
}

/// Until the count has come, each of one of the kinds.
async fn lease_all(engine: &Engine, only: &Only, wanted: &[&str], count: usize) {
    let mut leased = Vec::new();
    let leasing = timeout(HANG_LIMIT, async {
        while leased.len() < count {
            leased.extend(engine.lease_only(asks("mail", 7, 300), only.clone()).await.unwrap());
        }
    });
    assert!(leasing.await.is_ok(), "{} of {count} came", leased.len());
    assert_eq!(leased.len(), count);
    assert!(leased.iter().all(|lease| wanted.contains(&lease.kind.as_str())), "{leased:?}");
    record_outcomes(engine, &leased).await;
}

/// There are far more tasks of other kinds in front than one call reads.
async fn only_its_kinds(ground: Arc<dyn Ground>, engines: usize, settings: QueueSettings) {
    let site = SharedLimitSite::of(ground, engines).await;
    set_queue(site.engine(0), &of("mail"), settings).await;
    let at = site.engine(0).now();
    let of_all = |nth: usize| of_kind("mail", if nth < 60 { ["a", "b"][nth % 2] } else { "c" }, at);
    site.insert((0..90).map(of_all).collect()).await;
    lease_all(site.engine(0), &kinds(&["c"]), &["c"], 30).await;
    // They are brought back to be looked at now and then: a caller that asks for "c" puts them aside again.
    until("the others wait out of the order", async || {
        let none = site.engine(0).lease_only(asks("mail", 7, 0), kinds(&["c"])).await.unwrap();
        assert_eq!(none, []);
        let lanes = site.engine(0).parked(&of("mail"), 9).await.unwrap();
        lanes.iter().map(|lane| lane.1).sum::<usize>() > 0
    })
    .await;
    lease_all(site.engine(1), &kinds(&["b", "x"]), &["b"], 30).await;
    // At the other engine, and by who takes any.
    lease_all(site.engine(1), &Only::default(), &["a"], 30).await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_executor_is_given_tasks_of_its_kinds_and_the_others_are_left_for_others_embedded() {
    only_its_kinds(Embedded::ground().await, 1, QueueSettings::default()).await;
    let limited = QueueSettings { concurrency: Some(40), ..QueueSettings::default() };
    only_its_kinds(Embedded::ground().await, 1, limited).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_executor_is_given_tasks_of_its_kinds_and_the_others_are_left_for_others_on_servers() {
    only_its_kinds(OnServers::ground().await, 2, QueueSettings::default()).await;
}

/// One that waits for its kind learns of it from one that found it and does not take it.
#[tokio::test]
async fn who_waits_for_a_kind_is_woken_where_another_executor_leaves_it() {
    let rig = LimitsRig::new(QueueSettings::default()).await;
    for _ in 0..4 {
        let ask = |kind| rig.engine.lease_from_several(any(&["mail", "sms"], 9, 30_000), 9, kinds(&[kind]));
        let (mut finds, mut takes) = (pin!(ask("a")), pin!(ask("b")));
        // In this order: the first one in the line is woken.
        waits(finds.as_mut()).await;
        waits(takes.as_mut()).await;
        let leased = is_woken(async {
            rig.insert(vec![of_kind("mail", "b", now(&rig))]).await;
            tokio::select! {
                leased = takes => leased.unwrap(),
                leased = finds => panic!("it takes only \"a\": {leased:?}"),
            }
        })
        .await;
        assert_eq!(leased.iter().map(|leased| leased.kind.as_str()).collect::<Vec<_>>(), ["b"]);
        record_outcomes(&rig.engine, &leased).await;
    }
}
