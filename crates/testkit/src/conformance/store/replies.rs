//! Answers that are stored under idempotency keys.

use super::sample::{LATER, NOW, name};
use punctual_contract::{
    Store,
    store::{Reply, ReplyKey, Reservation, Reserved},
};
use punctual_domain::time::Millis;
use std::sync::Arc;

fn key(namespace: &str, key: &str) -> ReplyKey {
    ReplyKey { namespace: name(namespace), key: key.to_owned() }
}

fn reply(status: u16, keep_until: Millis) -> Reply {
    Reply { request_hash: u64::MAX, status, body: vec![b'{', b'}'], keep_until }
}

pub async fn a_reply_is_kept_under_its_key_and_namespace(store: Arc<dyn Store>) {
    let (one, two) = (reply(201, LATER), reply(409, LATER));
    store.save_reply(&key("default", "k"), &one).await.unwrap();
    store.save_reply(&key("other", "k"), &two).await.unwrap();
    assert_eq!(store.load_reply(&key("default", "k"), NOW).await.unwrap(), Some(one));
    assert_eq!(store.load_reply(&key("other", "k"), NOW).await.unwrap(), Some(two));
    assert_eq!(store.load_reply(&key("default", "K"), NOW).await.unwrap(), None);
    assert_eq!(store.load_reply(&key("third", "k"), NOW).await.unwrap(), None);
}

pub async fn a_reply_expires(store: Arc<dyn Store>) {
    let kept = reply(200, LATER);
    store.save_reply(&key("default", "k"), &kept).await.unwrap();
    let load = async |now| store.load_reply(&key("default", "k"), now).await.unwrap();
    assert_eq!(load(LATER.plus(-1)).await, Some(kept));
    assert_eq!(load(LATER.plus(1)).await, None);
    store.retire(LATER.plus(1), Millis::MAX, 10).await.unwrap();
    assert_eq!(load(LATER.plus(1)).await, None);
}

pub async fn a_key_can_be_used_again_after_its_time(store: Arc<dyn Store>) {
    let (first, second) = (reply(200, LATER), Reply { request_hash: 2, ..reply(201, LATER.plus(100)) });
    store.save_reply(&key("default", "k"), &first).await.unwrap();
    assert_eq!(store.load_reply(&key("default", "k"), LATER.plus(1)).await.unwrap(), None);
    store.save_reply(&key("default", "k"), &second).await.unwrap();
    assert_eq!(store.load_reply(&key("default", "k"), LATER.plus(1)).await.unwrap(), Some(second));
}

pub async fn a_reply_comes_back_identical(store: Arc<dyn Store>) {
    for (nth, request_hash) in [0, 1, u64::MAX, 1 << 63].into_iter().enumerate() {
        let body = (0..=255).cycle().take(nth * 40_000).collect();
        let status = if nth == 3 { u16::MAX } else { 200 };
        let kept = Reply { request_hash, status, body, keep_until: Millis::MAX };
        let key = key("default", &format!("clé '{nth}' \" \u{1F980}"));
        store.save_reply(&key, &kept).await.unwrap();
        assert_eq!(store.load_reply(&key, NOW).await.unwrap(), Some(kept));
    }
}

fn reservation(owner: &str, until: Millis) -> Reservation {
    Reservation { request_hash: 7, owner: owner.to_owned(), until }
}

pub async fn one_owner_at_a_time_has_a_key(store: Arc<dyn Store>) {
    let reserve = async |owner: &str, now: Millis, until| {
        store.reserve_reply(&key("default", "k"), &reservation(owner, until), now).await.unwrap()
    };
    assert_eq!(reserve("one", NOW, NOW.plus(100)).await, Reserved::Ours);
    assert_eq!(reserve("two", NOW, NOW.plus(500)).await, Reserved::Theirs);
    assert_eq!(store.load_reply(&key("default", "k"), NOW).await.unwrap(), None, "there is no answer");
    assert_eq!(reserve("one", NOW, NOW.plus(200)).await, Reserved::Ours, "for longer");
    assert_eq!(reserve("two", NOW.plus(199), NOW.plus(500)).await, Reserved::Theirs);
    store.release_reply(&key("default", "k"), "two").await.unwrap();
    assert_eq!(
        reserve("two", NOW.plus(199), NOW.plus(500)).await,
        Reserved::Theirs,
        "it was not his to give"
    );
    assert_eq!(reserve("two", NOW.plus(200), NOW.plus(500)).await, Reserved::Ours, "the first was over");
    assert_eq!(reserve("one", NOW.plus(200), NOW.plus(500)).await, Reserved::Theirs);
    store.release_reply(&key("default", "k"), "two").await.unwrap();
    assert_eq!(reserve("one", NOW.plus(200), NOW.plus(500)).await, Reserved::Ours);
    let other = store.reserve_reply(&key("other", "k"), &reservation("two", LATER), NOW).await.unwrap();
    assert_eq!(other, Reserved::Ours, "keys are the namespace's own");
}

pub async fn an_answer_takes_the_place_of_a_reservation_and_stays(store: Arc<dyn Store>) {
    let (key, kept) = (key("default", "k"), reply(201, LATER));
    let reserve =
        async |owner: &str, now| store.reserve_reply(&key, &reservation(owner, LATER), now).await.unwrap();
    assert_eq!(reserve("one", NOW).await, Reserved::Ours);
    store.save_reply(&key, &kept).await.unwrap();
    store.release_reply(&key, "one").await.unwrap();
    assert_eq!(reserve("two", NOW).await, Reserved::Answered(kept.clone()));
    assert_eq!(reserve("one", NOW).await, Reserved::Answered(kept.clone()));
    assert_eq!(store.load_reply(&key, NOW).await.unwrap(), Some(kept));
    assert_eq!(reserve("two", LATER).await, Reserved::Ours, "its time is over");
}

pub async fn of_many_who_reserve_one_key_at_once_one_has_it(store: Arc<dyn Store>) {
    let reserve = |nth: usize| {
        let store = Arc::clone(&store);
        async move {
            let reservation = reservation(&format!("owner {nth}"), LATER);
            store.reserve_reply(&key("default", "k"), &reservation, NOW).await.unwrap()
        }
    };
    let all = futures_util::future::join_all((0..50).map(reserve)).await;
    assert_eq!(all.iter().filter(|reserved| **reserved == Reserved::Ours).count(), 1);
    assert_eq!(all.iter().filter(|reserved| **reserved == Reserved::Theirs).count(), 49);
}
