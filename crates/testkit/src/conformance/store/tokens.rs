//! Tokens: stored completely, numbered, changed conditionally, deleted long after their end.

use super::sample::{CALLER, LATER, NOW};
use punctual_contract::{
    Store,
    access::{Previous, Revoked, Token, Tokens},
    settings::Saved,
};
use punctual_domain::{
    access::{Grant, Role, Secret, SecretHash},
    time::Millis,
};
use std::{collections::BTreeSet, sync::Arc};
use tokio::task::JoinSet;

fn token(seed: u8) -> Token {
    let secret = Secret::from_random([seed; 8], [seed; 32]);
    Token {
        id: secret.id().clone(),
        name: format!("mailer {seed} \u{1F980}"),
        grant: Grant::everywhere(Role::Submitter),
        secret: secret.hash(),
        previous: None,
        created_at: NOW,
        created_by: CALLER.to_owned(),
        expires_at: None,
        rotated_at: None,
        revoked: None,
        used_at: None,
        revision: 0,
        required_at: None,
    }
}

async fn save(store: &dyn Store, token: &Token, expected: i64) -> i64 {
    match store.save_token(token.clone(), expected).await.unwrap() {
        Saved::Done(revision) => revision,
        conflict @ Saved::Conflict(_) => panic!("{conflict:?}"),
    }
}

async fn one(store: &dyn Store, asked: &Token) -> Token {
    store.tokens().await.unwrap().all.into_iter().find(|token| token.id == asked.id).unwrap()
}

pub async fn an_empty_store_has_no_tokens(store: Arc<dyn Store>) {
    assert_eq!(store.access_revision().await.unwrap(), 0);
    assert_eq!(store.tokens().await.unwrap(), Tokens::default());
}

pub async fn a_token_comes_back_as_it_was_saved(store: Arc<dyn Store>) {
    let plain = token(1);
    let grant = Grant {
        roles: vec![Role::Viewer, Role::Operator],
        namespaces: vec!["shop".parse().unwrap(), "team-*".parse().unwrap()],
        queues: vec!["mail-*".parse().unwrap()],
    };
    let full = Token {
        grant,
        previous: Some(Previous { secret: SecretHash::of("before"), until: LATER }),
        expires_at: Some(Millis::MAX),
        rotated_at: Some(NOW),
        revoked: Some(Revoked { at: LATER, by: "ann".to_owned() }),
        required_at: Some(LATER),
        ..token(2)
    };
    for token in [&plain, &full] {
        let revision = save(&*store, token, 0).await;
        assert_eq!(one(&*store, token).await, Token { revision, ..token.clone() });
    }
    let all = store.tokens().await.unwrap().all;
    assert!(all.len() == 2 && all.is_sorted_by(|a, b| a.id < b.id));
}

pub async fn each_change_of_a_token_has_a_higher_revision_than_all_before(store: Arc<dyn Store>) {
    let (a, b) = (token(1), token(2));
    let first = save(&*store, &a, 0).await;
    let second = save(&*store, &b, 0).await;
    let third = save(&*store, &Token { expires_at: Some(LATER), ..a }, first).await;
    assert!(0 < first && first < second && second < third);
    assert_eq!(store.access_revision().await.unwrap(), third);
    assert_eq!(store.tokens().await.unwrap().revision, third);
}

pub async fn a_token_is_changed_on_the_revision_that_stands_only(store: Arc<dyn Store>) {
    let this_token = token(1);
    let first = save(&*store, &this_token, 0).await;
    let renamed = Token { name: "other".to_owned(), ..this_token.clone() };
    for expected in [0, first + 7] {
        let saved = store.save_token(renamed.clone(), expected).await.unwrap();
        assert_eq!(saved, Saved::Conflict(first), "{expected}");
    }
    assert_eq!(store.save_token(token(2), 5).await.unwrap(), Saved::Conflict(0), "there is none");
    assert_eq!(one(&*store, &this_token).await.name, this_token.name);
    assert_eq!(store.tokens().await.unwrap().revision, first, "and it was no change");
}

pub async fn of_many_who_change_one_token_one_does(store: Arc<dyn Store>) {
    let token = token(1);
    let first = save(&*store, &token, 0).await;
    let mut all = JoinSet::new();
    for nth in 0..16 {
        let (store, each_token) = (Arc::clone(&store), Token { name: format!("{nth}"), ..token.clone() });
        all.spawn(async move { store.save_token(each_token, first).await.unwrap() });
    }
    let done = all.join_all().await;
    assert_eq!(done.iter().filter(|saved| matches!(saved, Saved::Done(_))).count(), 1, "{done:?}");
}

pub async fn a_revoked_token_keeps_its_row(store: Arc<dyn Store>) {
    let token = token(1);
    let first = save(&*store, &token, 0).await;
    let revoked = Token { revoked: Some(Revoked { at: LATER, by: CALLER.to_owned() }), ..token };
    let revision = save(&*store, &revoked, first).await;
    assert_eq!(one(&*store, &revoked).await, Token { revision, ..revoked });
}

pub async fn tokens_that_ended_long_ago_are_forgotten_and_nothing_falls_open(store: Arc<dyn Store>) {
    let at = |ms: i64| Some(Millis(ms));
    let revoked = |ms: i64| Some(Revoked { at: Millis(ms), by: CALLER.to_owned() });
    let kept = [
        token(1),
        Token { expires_at: at(5_000), ..token(2) },
        Token { revoked: revoked(5_000), ..token(3) },
    ];
    let over = [
        Token { expires_at: at(4_999), ..token(4) },
        Token { revoked: revoked(4_999), ..token(5) },
        Token { revoked: revoked(1), expires_at: Some(Millis::MAX), ..token(6) },
    ];
    for token in kept.iter().chain(&over) {
        save(&*store, token, 0).await;
    }
    let revision = store.access_revision().await.unwrap();
    assert_eq!(store.forget_tokens(Millis(5_000), 2).await.unwrap(), 2);
    assert_eq!(store.forget_tokens(Millis(5_000), 2).await.unwrap(), 1);
    assert_eq!(store.forget_tokens(Millis(5_000), 2).await.unwrap(), 0);
    let left = store.tokens().await.unwrap();
    let ids = |tokens: &[Token]| tokens.iter().map(|token| token.id.clone()).collect::<BTreeSet<_>>();
    assert_eq!(ids(&left.all), ids(&kept));
    assert_eq!(left.revision, revision, "it was no change");
    assert_eq!(store.forget_tokens(Millis::MAX, 10).await.unwrap(), 2);
    assert_eq!(store.access_revision().await.unwrap(), revision, "and there were tokens once");
}

pub async fn the_last_use_of_a_token_is_kept_beside_its_changes(store: Arc<dyn Store>) {
    let this_token = token(1);
    let first = save(&*store, &this_token, 0).await;
    store.note_tokens_used(vec![(this_token.id.clone(), LATER), (token(9).id, LATER)]).await.unwrap();
    store.note_tokens_used(vec![(this_token.id.clone(), NOW)]).await.unwrap();
    assert_eq!(one(&*store, &this_token).await.used_at, Some(LATER), "the older one changes nothing");
    assert_eq!(store.access_revision().await.unwrap(), first, "it is no change");
    save(&*store, &Token { rotated_at: Some(LATER), ..this_token.clone() }, first).await;
    assert_eq!(one(&*store, &this_token).await.used_at, Some(LATER), "and a change leaves it");
    store.note_tokens_used(Vec::new()).await.unwrap();
}
