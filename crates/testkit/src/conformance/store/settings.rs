//! Settings of queues and scopes: numbers, history, and pauses that take effect.

use super::sample::{
    CALLER, EXECUTOR, KEEP, LATER, NOW, apply, dispatch, facts, grant, insert, moved, name, queue, read,
    step, version,
};
use punctual_contract::{
    Store,
    settings::{SaveSetting, Saved, Settings},
    store::{Applied, Change, Dispatched, Grant},
};
use punctual_domain::{
    name::QueueKey,
    retry::RetryPolicy,
    settings::{
        BodyFormat, Choice, Deletion, Keep, Mode, Pause, QueueSettings, Rate, Retries, Scope, ScopeSettings,
        Secret, Setting, Source, Webhook, WhileStoreIsAway,
    },
    state::State,
    task::{NewTask, Task},
    time::Millis,
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};
use tokio::task::JoinSet;

fn of_queue(text: &str) -> Scope {
    Scope::Queue(queue(text))
}

fn limited(concurrency: u32) -> Setting {
    Setting::Queue(Box::new(QueueSettings { concurrency: Some(concurrency), ..QueueSettings::default() }))
}

fn paused() -> Setting {
    let pause = Some(Pause { at: NOW, by: CALLER.to_owned(), reason: Some("a flood".to_owned()) });
    Setting::Queue(Box::new(QueueSettings { pause, ..QueueSettings::default() }))
}

fn asked(scope: Scope, setting: Option<Setting>, expected: Option<i64>) -> SaveSetting {
    SaveSetting { scope, setting, expected, by: CALLER.to_owned() }
}

async fn save(store: &dyn Store, scope: Scope, setting: Option<Setting>, now: Millis) -> i64 {
    match store.save_setting(asked(scope, setting, None), now).await.unwrap() {
        Saved::Done(revision) => revision,
        save_setting @ Saved::Conflict(_) => panic!("{save_setting:?} with nothing expected"),
    }
}

async fn claimed(store: &dyn Store, ask: NewTask) -> Task {
    let task = insert(store, ask).await.task;
    moved(store, &task, Change::Claim, NOW).await
}

async fn answer(store: &dyn Store, task: &Task) -> Dispatched {
    store.dispatch(vec![grant(task, NOW)], NOW).await.unwrap().remove(0)
}

pub async fn nothing_is_set_in_an_empty_store(store: Arc<dyn Store>) {
    assert_eq!(store.settings_revision().await.unwrap(), 0);
    assert_eq!(store.settings().await.unwrap(), Settings::default());
    assert_eq!(store.setting_changes(&of_queue("mail"), None, 10).await.unwrap(), []);
}

fn everything_set() -> Setting {
    Setting::Queue(Box::new(QueueSettings {
        pause: Some(Pause { at: NOW, by: "ann".to_owned(), reason: None }),
        concurrency: Some(10),
        key_concurrency: Some(2),
        rate: Some(Rate { limit: 100, period_ms: 1_000, burst: 20 }),
        key_rate: Some(Rate { limit: 1, period_ms: 60_000, burst: 1 }),
        choice: Choice::Weights { weights: [5, 4, 3, 2, 0] },
        retries: Retries { lower_by: 1, share_percent: Some(25), concurrency: Some(3) },
        max_waiting: Some(1_000_000),
        retry: Some(RetryPolicy::List { delays_ms: vec![5, 10] }),
        max_attempts: Some(7),
        timeout_ms: Some(30_000),
        pending_timeout_ms: Some(60_000),
        keep: Keep { succeeded_ms: Some(1), dead_ms: Some(2), cancelled_ms: Some(3) },
        lateness_budget_ms: Some(250),
        mode: Some(Mode::Webhook),
        weight: Some(7),
        indexed_labels: ["customer".to_owned(), "gr\u{f6}\u{df}e \"x\"".to_owned()].into(),
        source: Some(Source::Store),
        scan_interval_ms: Some(3_600_000),
        scan_concurrency: Some(9),
        scan_batch: Some(17),
        while_store_is_away: Some(WhileStoreIsAway::HandOver),
        webhook: Some(Box::new(Webhook {
            url: "https://example.org/größer?a=1".to_owned(),
            secret: Some(Secret::new("whsec_a whsec_b")),
            headers: [("x-\"a\"".to_owned(), Secret::new("b"))].into(),
            timeout_ms: Some(5_000),
            concurrency: Some(3),
            format: Some(BodyFormat::Cloudevents),
            allow_private: true,
        })),
    }))
}

pub async fn what_is_saved_stands_as_it_was_saved(store: Arc<dyn Store>) {
    let rate = |limit| Some(Rate { limit, period_ms: 60_000, burst: 7 });
    let scope = ScopeSettings {
        concurrency: Some(4),
        max_waiting: Some(u64::from(u32::MAX)),
        max_payload_bytes: Some(1 << 40),
        rate: rate(2),
        insert_rate: rate(3),
        weight: Some(1_000),
        description: Some("größer als \"vorher\"".into()),
        deletion: Some(Box::new(Deletion { since: NOW, by: CALLER.to_owned(), tasks: Some(7) })),
    };
    let wanted = [
        (Scope::Everything, Setting::Scope(scope.clone())),
        (Scope::Namespace(name("default")), Setting::Scope(scope)),
        (of_queue("mail"), everything_set()),
    ];
    for (scope, setting) in wanted.iter().rev() {
        save(&*store, scope.clone(), Some(setting.clone()), LATER).await;
    }
    let current = store.settings().await.unwrap();
    assert_eq!(current.revision, store.settings_revision().await.unwrap());
    let all: Vec<_> =
        current.all.iter().map(|stored| (stored.scope.clone(), stored.setting.clone())).collect();
    assert_eq!(all, wanted);
    assert!(
        current.all.iter().all(|stored| (stored.updated_at, stored.updated_by.as_str()) == (LATER, CALLER))
    );
    assert_eq!(current.all.iter().map(|stored| stored.revision).max(), Some(current.revision));
}

pub async fn each_change_has_a_higher_revision_than_all_before(store: Arc<dyn Store>) {
    let mut last = 0;
    for nth in 1..6 {
        for queue in ["mail", "sms"] {
            let revision = save(&*store, of_queue(queue), Some(limited(nth)), NOW).await;
            assert!(revision > last);
            assert_eq!(store.settings_revision().await.unwrap(), revision);
            last = revision;
        }
    }
    assert!(save(&*store, of_queue("mail"), None, NOW).await > last);
    assert_eq!(store.settings().await.unwrap().all.len(), 1);
}

pub async fn a_save_on_another_revision_is_a_conflict_and_changes_nothing(store: Arc<dyn Store>) {
    let at = async |expected, setting| {
        store.save_setting(asked(of_queue("mail"), setting, Some(expected)), NOW).await.unwrap()
    };
    assert_eq!(at(5, Some(limited(1))).await, Saved::Conflict(0));
    assert_eq!(at(5, None).await, Saved::Conflict(0));
    let Saved::Done(first) = at(0, Some(limited(1))).await else { panic!("nothing was set") };
    let before = store.settings().await.unwrap();
    assert_eq!(at(0, Some(limited(2))).await, Saved::Conflict(first));
    assert_eq!(at(first + 1, None).await, Saved::Conflict(first));
    assert_eq!(store.settings().await.unwrap(), before);
    assert_eq!(store.setting_changes(&of_queue("mail"), None, 10).await.unwrap().len(), 1);
    assert!(matches!(at(first, Some(limited(2))).await, Saved::Done(number) if number > first));
}

pub async fn what_is_removed_is_gone_and_its_history_stays(store: Arc<dyn Store>) {
    let set = save(&*store, of_queue("mail"), Some(limited(1)), NOW).await;
    let removed = save(&*store, of_queue("mail"), None, LATER).await;
    let current = store.settings().await.unwrap();
    assert_eq!((current.revision, current.all), (removed, vec![]));
    let lines = store.setting_changes(&of_queue("mail"), None, 10).await.unwrap();
    let lines: Vec<_> =
        lines.into_iter().map(|line| (line.revision, line.setting, line.changed_at)).collect();
    assert_eq!(lines, [(removed, None, LATER), (set, Some(limited(1)), NOW)]);
}

pub async fn removing_what_is_not_set_is_nothing(store: Arc<dyn Store>) {
    let revision = save(&*store, of_queue("sms"), Some(limited(1)), NOW).await;
    assert_eq!(save(&*store, of_queue("mail"), None, NOW).await, 0);
    assert_eq!(store.settings_revision().await.unwrap(), revision);
    assert_eq!(store.setting_changes(&of_queue("mail"), None, 10).await.unwrap(), []);
}

pub async fn the_history_of_a_scope_is_its_own_newest_first_and_in_pages(store: Arc<dyn Store>) {
    let mut mine = Vec::new();
    for nth in 1..8 {
        mine.push(save(&*store, of_queue("mail"), Some(limited(nth)), NOW.plus(nth.into())).await);
        let scope = Scope::Namespace(name("mail"));
        save(&*store, scope, Some(Setting::Scope(ScopeSettings::default())), NOW).await;
    }
    mine.reverse();
    let mut found = Vec::new();
    while let Ok(page) = store.setting_changes(&of_queue("mail"), found.last().copied(), 3).await {
        assert!(page.len() <= 3 && page.iter().all(|change| change.changed_by == CALLER));
        if page.is_empty() {
            break;
        }
        found.extend(page.iter().map(|change| change.revision));
    }
    assert_eq!(found, mine);
}

pub async fn of_many_who_save_on_one_revision_one_does(store: Arc<dyn Store>) {
    let mut all = JoinSet::new();
    for nth in 1..17 {
        let (store, asked) = (Arc::clone(&store), asked(of_queue("mail"), Some(limited(nth)), Some(0)));
        all.spawn(async move { (nth, store.save_setting(asked, NOW).await.unwrap()) });
    }
    let saved: Vec<_> =
        all.join_all().await.into_iter().filter(|pair| matches!(pair.1, Saved::Done(_))).collect();
    assert_eq!(saved.len(), 1);
    assert_eq!(store.settings().await.unwrap().all[0].setting, limited(saved[0].0));
    assert_eq!(store.setting_changes(&of_queue("mail"), None, 99).await.unwrap().len(), 1);
}

pub async fn nothing_of_a_paused_queue_is_handed_over_until_it_is_resumed(store: Arc<dyn Store>) {
    let (first, second) = (claimed(&*store, version(1, 0)).await, claimed(&*store, version(2, 0)).await);
    assert!(dispatch(&*store, grant(&first, NOW), NOW).await.is_some());
    save(&*store, of_queue("mail"), Some(paused()), NOW).await;
    for _ in 0..3 {
        assert_eq!(answer(&*store, &second).await, Dispatched::Paused);
    }
    assert_eq!(read(&*store, second.place).await, second);
    save(&*store, of_queue("mail"), Some(limited(3)), NOW).await;
    assert!(matches!(answer(&*store, &second).await, Dispatched::Made(_)));
}

/// The task is written whether its row is read or not.
pub async fn what_has_begun_is_written_in_a_pause(store: Arc<dyn Store>) {
    let (first, second) = (claimed(&*store, version(1, 0)).await, claimed(&*store, version(2, 0)).await);
    save(&*store, of_queue("mail"), Some(paused()), NOW).await;
    let begun = |task| Grant { has_begun: true, ..grant(task, NOW) };
    let known = |task| Grant { known: Some(facts(task)), ..begun(task) };
    let answers = store.dispatch(vec![begun(&first), known(&second)], NOW).await.unwrap();
    assert!(matches!(answers[..], [Dispatched::Made(_), Dispatched::Made(_)]), "{answers:?}");
    let again = store.dispatch(vec![begun(&first), known(&second)], NOW).await.unwrap();
    assert_eq!(again, [Dispatched::Lost, Dispatched::Lost]);
}

pub async fn a_pause_is_of_one_queue_in_one_namespace(store: Arc<dyn Store>) {
    save(&*store, of_queue("mail"), Some(paused()), NOW).await;
    let elsewhere = QueueKey { namespace: name("other"), queue: name("mail") };
    let others =
        [NewTask { queue: elsewhere, ..version(1, 0) }, NewTask { queue: queue("sms"), ..version(2, 0) }];
    for ask in others {
        let task = claimed(&*store, ask).await;
        assert!(matches!(answer(&*store, &task).await, Dispatched::Made(_)));
    }
    let (stays, goes) =
        (claimed(&*store, version(3, 0)).await, NewTask { queue: queue("sms"), ..version(4, 0) });
    let goes = claimed(&*store, goes).await;
    let answers = store.dispatch(vec![grant(&stays, NOW), grant(&goes, NOW)], NOW).await.unwrap();
    assert!(matches!(answers[..], [Dispatched::Paused, Dispatched::Made(_)]), "in one batch");
}

pub async fn a_refused_grant_is_as_good_as_it_was(store: Arc<dyn Store>) {
    let task = claimed(&*store, version(1, 0)).await;
    save(&*store, of_queue("mail"), Some(paused()), NOW).await;
    assert_eq!(answer(&*store, &task).await, Dispatched::Paused);
    save(&*store, of_queue("mail"), None, NOW).await;
    let assignment = dispatch(&*store, grant(&task, NOW), NOW).await.unwrap();
    assert_eq!((assignment.attempt, assignment.fence), (1, task.fence + 1));
    assert_eq!(read(&*store, task.place).await.lease.unwrap().executor, EXECUTOR);
}

pub async fn a_task_that_is_cancelled_while_its_queue_is_paused_is_lost(store: Arc<dyn Store>) {
    let task = claimed(&*store, version(1, 0)).await;
    save(&*store, of_queue("mail"), Some(paused()), NOW).await;
    assert_eq!(apply(&*store, step(&task, Change::Cancel { keep_until: KEEP }), NOW).await, Applied::Moved);
    assert_eq!(answer(&*store, &task).await, Dispatched::Lost);
    let new = insert(&*store, version(2, 0)).await.task;
    assert_eq!(new.state, State::Scheduled, "inserts go on");
    save(&*store, of_queue("mail"), None, NOW).await;
    assert_eq!(answer(&*store, &task).await, Dispatched::Lost);
}

pub async fn no_dispatch_ends_later_than_the_answer_to_a_pause(store: Arc<dyn Store>) {
    let mut tasks = Vec::new();
    for id in 0..120 {
        tasks.push(claimed(&*store, version(id, 0)).await);
    }
    let is_paused = Arc::new(AtomicBool::new(false));
    let mut all = JoinSet::new();
    for part in tasks.chunks(15).map(<[_]>::to_vec) {
        let (store, is_paused) = (Arc::clone(&store), Arc::clone(&is_paused));
        all.spawn(async move {
            let (mut made, mut refused) = (0, 0);
            for task in part {
                let began_paused = is_paused.load(SeqCst);
                match answer(&*store, &task).await {
                    Dispatched::Made(_) if began_paused => panic!("started after the answer to the pause"),
                    Dispatched::Made(_) => made += 1,
                    Dispatched::Paused => refused += 1,
                    Dispatched::Lost => panic!("nobody else wanted it"),
                }
            }
            (made, refused)
        });
    }
    save(&*store, of_queue("mail"), Some(paused()), NOW).await;
    is_paused.store(true, SeqCst);
    let flying = |books: punctual_contract::store::Books| {
        books
            .tallies
            .iter()
            .filter(|tally| tally.state == State::Dispatched)
            .map(|tally| tally.tasks)
            .sum::<i64>()
    };
    let at_the_answer = flying(store.books().await.unwrap());
    let (made, refused) = all.join_all().await.into_iter().fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    assert_eq!((made, made + refused), (at_the_answer, 120));
}

pub async fn removing_the_settings_of_a_paused_queue_resumes_it(store: Arc<dyn Store>) {
    let task = claimed(&*store, version(1, 0)).await;
    save(&*store, of_queue("mail"), Some(paused()), NOW).await;
    save(&*store, of_queue("mail"), None, NOW).await;
    assert!(matches!(answer(&*store, &task).await, Dispatched::Made(_)));
}
