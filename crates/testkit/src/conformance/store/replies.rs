//! Answers kept under idempotency keys.

use super::sample::{LATER, NOW, name};
use punctual_contract::{
    Store,
    store::{Reply, ReplyKey},
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
