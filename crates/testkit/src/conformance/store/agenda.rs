//! The agenda: a change that was acknowledged is in the next read.

use super::{
    sample::{CALLER, LATER, LEASE_END, NOW, ask, queue},
    walk::walk_to,
};
use punctual_contract::{
    Store,
    access::Token,
    settings::{SaveSetting, Saved},
    store::Agenda,
};
use punctual_domain::{
    access::{Grant, Role, Secret},
    settings::{QueueSettings, Scope, Setting},
    state::State,
};
use std::sync::Arc;

/// As the engine that runs its services: nothing is left to enter in an empty store.
async fn read(store: &dyn Store) -> Agenda {
    let mut agenda = store.agenda_in(0).await.unwrap();
    for part in 1..store.parts() {
        let other = store.agenda_in(part).await.unwrap();
        agenda.leases_at = agenda.leases_at.into_iter().chain(other.leases_at).min();
        agenda.has_labels_left |= other.has_labels_left;
    }
    agenda
}

async fn enter_all(store: &dyn Store) {
    for part in 0..store.parts() {
        while store.index_labels_in(part, 7).await.unwrap() > 0 {}
    }
}

fn labelled() -> SaveSetting {
    let settings = QueueSettings { indexed_labels: ["team".to_owned()].into(), ..QueueSettings::default() };
    SaveSetting {
        scope: Scope::Queue(queue("mail")),
        setting: Some(Setting::Queue(Box::new(settings))),
        expected: None,
        by: CALLER.to_owned(),
    }
}

fn token() -> Token {
    let secret = Secret::from_random([1; 8], [1; 32]);
    Token {
        id: secret.id().clone(),
        name: "mailer".to_owned(),
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

pub async fn the_agenda_shows_what_was_set_and_what_is_in_flight(store: Arc<dyn Store>) {
    enter_all(&*store).await;
    assert_eq!(read(&*store).await, Agenda::default(), "of an empty store");

    store.insert(vec![ask(1)], CALLER, NOW).await.unwrap();
    let Saved::Done(revision) = store.save_setting(labelled(), LATER).await.unwrap() else { panic!("saved") };
    let agenda = read(&*store).await;
    assert_eq!((agenda.settings_revision, agenda.has_labels_left), (revision, true));
    assert_eq!(revision, store.settings_revision().await.unwrap());
    enter_all(&*store).await;
    assert!(!read(&*store).await.has_labels_left);

    let Saved::Done(revision) = store.save_token(token(), 0).await.unwrap() else { panic!("saved") };
    assert_eq!(read(&*store).await.access_revision, revision);
    assert_eq!(read(&*store).await.leases_at, None);

    walk_to(&*store, 2, State::Dispatched).await;
    let leases_at = read(&*store).await.leases_at;
    assert!(leases_at.is_some_and(|at| at <= LEASE_END), "{leases_at:?}: no lease ends before");
}
