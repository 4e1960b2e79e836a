//! Executors: heartbeats, farewells, desired states, and deaths that are found once.

use super::sample::{NOW, name};
use punctual_contract::Store;
use punctual_domain::{
    executor::{DesiredState, Executor, ExecutorStatus, Profile, Roll, Sign},
    name::Name,
    time::Millis,
};
use std::sync::Arc;

const ALIVE: Millis = Millis(NOW.0 + 30_000);

fn sign(executor: &str, at: Millis) -> Sign {
    let (namespace, name) = (Name::default_namespace(), name(executor));
    Sign { namespace, name, profile: Profile::default(), at, alive_until: ALIVE, leaving: false }
}

fn profile() -> Profile {
    Profile {
        version: Some("2.1.0".to_owned()),
        host: Some("machine-1".to_owned()),
        capacity: Some(8),
        concurrency: Some(4),
        queues: Some(["mail".to_owned(), "sms".to_owned()].into()),
        kinds: Some(["send".to_owned()].into()),
        labels: Some([("zone \u{1F980}".to_owned(), "a'\"b".to_owned())].into()),
        holds: Some(vec!["t1".to_owned()]),
        running: Some(1),
    }
}

async fn list(store: &dyn Store, namespace: &str) -> Vec<Executor> {
    store.executors(&name(namespace), "", 1_000).await.unwrap()
}

async fn one(store: &dyn Store, executor: &str) -> Executor {
    store.executors(&Name::default_namespace(), executor, 1).await.unwrap().remove(0)
}

pub async fn an_executor_is_shown_as_it_told_of_itself(store: Arc<dyn Store>) {
    let reported = Sign { profile: profile(), ..sign("x1", NOW) };
    assert_eq!(store.note_executors(vec![reported]).await.unwrap(), []);
    let want = Executor {
        namespace: Name::default_namespace(),
        name: name("x1"),
        profile: profile(),
        desired: DesiredState::Serve,
        first_seen_at: NOW,
        seen_at: NOW,
        alive_until: ALIVE,
    };
    assert_eq!(list(&*store, "default").await, [want]);
    assert_eq!(list(&*store, "other").await, []);
}

pub async fn what_a_sign_does_not_say_stays(store: Arc<dyn Store>) {
    store.note_executors(vec![Sign { profile: profile(), ..sign("x1", NOW) }]).await.unwrap();
    let said = Profile { capacity: Some(2), holds: Some(Vec::new()), running: Some(0), ..Profile::default() };
    let later = Sign { profile: said, alive_until: ALIVE.plus(5), ..sign("x1", NOW.plus(5)) };
    store.note_executors(vec![later]).await.unwrap();
    let executor = one(&*store, "x1").await;
    let want = Profile { capacity: Some(2), holds: Some(Vec::new()), running: Some(0), ..profile() };
    assert_eq!((executor.profile, executor.first_seen_at, executor.seen_at), (want, NOW, NOW.plus(5)));
    assert_eq!(executor.alive_until, ALIVE.plus(5));
}

pub async fn an_older_sign_changes_nothing(store: Arc<dyn Store>) {
    store.note_executors(vec![Sign { profile: profile(), ..sign("x1", NOW) }]).await.unwrap();
    let before = one(&*store, "x1").await;
    let old = Profile { capacity: Some(1), ..Profile::default() };
    let old = Sign { profile: old, alive_until: ALIVE.plus(9), leaving: true, ..sign("x1", NOW.plus(-1)) };
    store.note_executors(vec![old]).await.unwrap();
    assert_eq!(one(&*store, "x1").await, before);
}

pub async fn executors_are_listed_by_name_from_a_name_on(store: Arc<dyn Store>) {
    let names = ["b", "a", "c-1", "c.1", "B"];
    store.note_executors(names.iter().map(|name| sign(name, NOW)).collect()).await.unwrap();
    let namespace = name("other");
    store.note_executors(vec![Sign { namespace, ..sign("a", NOW) }]).await.unwrap();
    let listed = async |from: &str, limit| {
        let found = store.executors(&Name::default_namespace(), from, limit).await.unwrap();
        found.into_iter().map(|executor| executor.name.as_str().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(listed("", 10).await, ["B", "a", "b", "c-1", "c.1"]);
    assert_eq!(listed("b", 2).await, ["b", "c-1"]);
    assert_eq!(listed("d", 2).await, [] as [&str; 0]);
    assert_eq!(list(&*store, "other").await.len(), 1);
}

pub async fn a_wish_stands_until_another_or_the_farewell(store: Arc<dyn Store>) {
    let namespace = Name::default_namespace();
    let desired = async |executor: &str, desired| {
        store.desired_state_of_executor(&Name::default_namespace(), &name(executor), desired).await.unwrap()
    };
    assert_eq!(desired("x1", DesiredState::Drain).await, None, "nobody of that name");
    store.note_executors(vec![sign("x1", NOW), sign("x2", NOW)]).await.unwrap();
    assert_eq!(
        (desired("x1", DesiredState::Drain).await, desired("x2", DesiredState::Quiet).await),
        (Some(DesiredState::Serve), Some(DesiredState::Serve))
    );
    assert_eq!(desired("x1", DesiredState::Drain).await, Some(DesiredState::Drain), "the same again");
    let mut wished = store.note_executors(vec![sign("x1", NOW.plus(1))]).await.unwrap();
    wished.sort_by(|a, b| a.1.cmp(&b.1));
    let want = [
        (namespace.clone(), name("x1"), DesiredState::Drain),
        (namespace.clone(), name("x2"), DesiredState::Quiet),
    ];
    assert_eq!(wished, want, "all that is wished, whoever gave a sign");
    assert_eq!(one(&*store, "x1").await.status(NOW.plus(2)), ExecutorStatus::Draining);
    let farewell = Sign { leaving: true, ..sign("x1", NOW.plus(3)) };
    assert_eq!(store.note_executors(vec![farewell]).await.unwrap(), want[1..]);
    assert_eq!(list(&*store, "default").await.len(), 1, "it is in no list");
    assert_eq!(desired("x1", DesiredState::Quiet).await, None);
    assert_eq!(desired("x2", DesiredState::Serve).await, Some(DesiredState::Quiet), "what stood until then");
    assert_eq!(store.note_executors(Vec::new()).await.unwrap(), []);
    store.note_executors(vec![sign("x1", NOW.plus(2))]).await.unwrap();
    assert_eq!(list(&*store, "default").await.len(), 1, "an older sign does not bring it back");
    store.note_executors(vec![sign("x1", NOW.plus(4))]).await.unwrap();
    assert_eq!(one(&*store, "x1").await.desired, DesiredState::Serve, "a newer one does, as new");
}

pub async fn each_death_is_found_once_and_the_dead_are_forgotten(store: Arc<dyn Store>) {
    let roll = async |now: Millis, silent_since, left_before| {
        store.sweep_silent(now, silent_since, left_before).await.unwrap()
    };
    assert_eq!(roll(NOW, Millis(0), Millis(0)).await, Roll::default());
    let names = ["x1", "x2", "x3", "x4"];
    store.note_executors(names.iter().map(|name| sign(name, NOW)).collect()).await.unwrap();
    let later = Sign { alive_until: ALIVE.plus(1), ..sign("x2", NOW.plus(1)) };
    store.note_executors(vec![later, Sign { leaving: true, ..sign("x4", NOW.plus(1)) }]).await.unwrap();
    store
        .desired_state_of_executor(&Name::default_namespace(), &name("x2"), DesiredState::Quiet)
        .await
        .unwrap();
    let before = Roll { alive: 2, quiet: 1, ..Roll::default() };
    assert_eq!(roll(ALIVE.plus(-1), Millis(0), Millis(0)).await, before);
    let found = Roll { quiet: 1, dead: 2, died: 2, ..Roll::default() };
    assert_eq!(roll(ALIVE, Millis(0), Millis(0)).await, found);
    assert_eq!(roll(ALIVE, Millis(0), Millis(0)).await, Roll { died: 0, ..found }, "once");
    let back = Sign { alive_until: ALIVE.plus(2), ..sign("x1", ALIVE) };
    store.note_executors(vec![back]).await.unwrap();
    assert_eq!(
        roll(ALIVE, Millis(0), Millis(0)).await,
        Roll { alive: 1, quiet: 1, dead: 1, ..Roll::default() }
    );
    let again = roll(ALIVE.plus(2), ALIVE.plus(1), ALIVE).await;
    assert_eq!(again, Roll { dead: 2, died: 2, ..Roll::default() }, "x1 and x2 now; x3 and x4 are forgotten");
    let left = list(&*store, "default").await;
    assert_eq!(left.iter().map(|executor| executor.name.as_str()).collect::<Vec<_>>(), ["x1", "x2"]);
}
