//! Waiting work is bounded, lanes take turns, and no thread is lost to a panic, to a caller that is gone, or
//! to a slow task.

use super::*;
use crate::budget::{Bound, Budget};
use std::sync::mpsc;
use tokio::task::JoinSet;

const LONG: Duration = Duration::from_secs(3_600);

/// Holds the only thread until the sender is dropped.
async fn held(pool: &'static Pool, jobs: &mut JoinSet<()>) -> mpsc::Sender<()> {
    let (release, released) = mpsc::channel::<()>();
    let (begin, begun) = oneshot::channel();
    jobs.spawn(async move {
        let work = move |_: &TimeSlice| {
            begin.send(()).unwrap();
            released.recv().unwrap_err();
        };
        pool.run(PoolLane::Request, "eu", work).await.unwrap();
    });
    begun.await.unwrap();
    release
}

/// A pool with one thread.
fn leaked(waiting_max: usize) -> &'static Pool {
    Box::leak(Box::new(Pool::new(1, waiting_max, LONG)))
}

#[tokio::test]
async fn a_full_lane_refuses_at_once_and_the_other_lane_does_not() {
    let pool = leaked(8);
    let mut jobs = JoinSet::new();
    let release = held(pool, &mut jobs).await;
    let waiting: Vec<_> = (0..2).map(|_| Box::pin(pool.run(PoolLane::Request, "eu", |_| ()))).collect();
    let mut waiting = waiting.into_iter().map(|mut job| {
        assert!(futures_poll(&mut job).is_none());
        job
    });
    let (first, second) = (waiting.next().unwrap(), waiting.next().unwrap());
    assert_eq!(pool.run(PoolLane::Request, "eu", |_| ()).await, Err(Unavailable::Full));
    let mut engine = Box::pin(pool.run(PoolLane::Engine, "eu", |_| 7));
    assert!(futures_poll(&mut engine).is_none());
    drop(release);
    assert_eq!((first.await, second.await, engine.await), (Ok(()), Ok(()), Ok(7)));
}

fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::Pin::new(future).poll(&mut context) {
        std::task::Poll::Ready(done) => Some(done),
        std::task::Poll::Pending => None,
    }
}

#[tokio::test]
async fn tenants_take_turns_and_none_of_them_fills_a_lane() {
    let pool = leaked(16);
    let mut jobs = JoinSet::new();
    let release = held(pool, &mut jobs).await;
    let (begun, order) = mpsc::channel();
    let mut all = Vec::new();
    for tenant in ["eu", "eu", "eu", "us", "eu", "asia"] {
        let begun = begun.clone();
        let mut job = Box::pin(pool.run(PoolLane::Request, tenant, move |_| begun.send(tenant).unwrap()));
        assert!(futures_poll(&mut job).is_none());
        all.push(job);
    }
    assert_eq!(
        pool.run(PoolLane::Request, "eu", |_| ()).await,
        Err(Unavailable::Full),
        "a quarter is its own"
    );
    drop(release);
    for job in all {
        job.await.unwrap();
    }
    assert_eq!(order.try_iter().collect::<Vec<_>>(), ["eu", "us", "asia", "eu", "eu", "eu"]);
}

#[tokio::test]
async fn one_thread_is_left_to_the_other_tenants() {
    let pool: &'static Pool = Box::leak(Box::new(Pool::new(2, 16, LONG)));
    let mut jobs = JoinSet::new();
    let release = held(pool, &mut jobs).await;
    let mut own = Box::pin(pool.run(PoolLane::Engine, "eu", |_| 1));
    assert!(futures_poll(&mut own).is_none());
    assert_eq!(pool.run(PoolLane::Engine, "us", |_| 2).await, Ok(2), "although the other came first");
    assert!(futures_poll(&mut own).is_none());
    drop(release);
    assert_eq!(own.await, Ok(1));
}

#[tokio::test]
async fn lanes_take_turns() {
    let pool = leaked(100);
    let mut jobs = JoinSet::new();
    let release = held(pool, &mut jobs).await;
    let (begun, order) = mpsc::channel();
    let mut all = Vec::new();
    for lane in [PoolLane::Request, PoolLane::Request, PoolLane::Request, PoolLane::Engine, PoolLane::Engine]
    {
        let begun = begun.clone();
        let mut job = Box::pin(pool.run(lane, "eu", move |_| begun.send(lane).unwrap()));
        assert!(futures_poll(&mut job).is_none());
        all.push(job);
    }
    drop(release);
    for job in all {
        job.await.unwrap();
    }
    let wanted =
        [PoolLane::Engine, PoolLane::Request, PoolLane::Engine, PoolLane::Request, PoolLane::Request];
    assert_eq!(order.try_iter().collect::<Vec<_>>(), wanted);
}

#[tokio::test]
async fn a_panic_is_an_error_and_costs_no_thread() {
    let pool = Pool::new(1, 1, LONG);
    for _ in 0..3 {
        let done = pool
            .run(PoolLane::Engine, "eu", |_| -> () { std::panic::resume_unwind(Box::new("a fault")) })
            .await;
        assert_eq!(done, Err(Unavailable::Panicked));
    }
    assert_eq!(pool.run(PoolLane::Engine, "eu", |_| 1).await, Ok(1));
}

fn endless(slice: &TimeSlice) -> Bound {
    let mut budget = Budget::of_request(slice);
    loop {
        if let Err(problem) = budget.within(u64::MAX, u64::MAX, |part| part.look()) {
            return problem.bound;
        }
    }
}

#[tokio::test]
async fn endless_work_ends_by_its_deadline() {
    let pool = Pool::new(1, 1, Duration::from_millis(20));
    assert_eq!(pool.run(PoolLane::Request, "eu", endless).await, Ok(Bound::Time));
    assert_eq!(pool.run(PoolLane::Request, "eu", |_| 1).await, Ok(1));
}

#[tokio::test]
async fn work_whose_caller_is_gone_stops_or_is_not_begun() {
    let pool = leaked(10);
    let (begin, begun) = oneshot::channel();
    let mut asked = Box::pin(pool.run(PoolLane::Request, "eu", move |slice| {
        begin.send(()).unwrap();
        endless(slice)
    }));
    assert!(futures_poll(&mut asked).is_none());
    begun.await.unwrap();
    let (begun, order) = mpsc::channel();
    let mut second = Box::pin(pool.run(PoolLane::Request, "eu", move |_| begun.send(()).unwrap()));
    assert!(futures_poll(&mut second).is_none());
    drop(second);
    drop(asked);
    assert_eq!(pool.run(PoolLane::Request, "eu", |_| 1).await, Ok(1));
    assert_eq!(order.try_recv(), Err(mpsc::TryRecvError::Disconnected), "it was never begun");
}
