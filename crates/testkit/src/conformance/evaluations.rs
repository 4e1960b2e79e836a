//! Marks of evaluations: which engine has died of which subject.

use punctual_contract::{
    EvaluationStore,
    evaluations::{Crowd, DEATHS_MAX, EvaluationKind, EvaluationPass, Subject, SubjectMarks},
};
use punctual_domain::{name::Name, time::Millis};
use std::sync::Arc;

const NOW: Millis = Millis(1_800_000_000_000);

fn pass(engine: &str, number: i64) -> EvaluationPass {
    EvaluationPass { kind: EvaluationKind::Schedule, engine: engine.to_owned(), number }
}

fn subject(id: i64) -> Subject {
    Subject { id, namespace: Name::new("acme").unwrap(), name: format!("daily-{id}") }
}

fn free() -> SubjectMarks {
    SubjectMarks { is_marked: true, died: 0, at_work: 0 }
}

fn left_by(died: usize) -> SubjectMarks {
    SubjectMarks { is_marked: false, died, at_work: 0 }
}

/// Begins evaluations of engines that send no heartbeat: each counts as dead when another one checks.
async fn begun(
    store: &dyn EvaluationStore,
    pass: &EvaluationPass,
    ids: &[i64],
    crowd: Crowd,
) -> Vec<SubjectMarks> {
    let subjects: Vec<Subject> = ids.iter().map(|id| subject(*id)).collect();
    store.begin_evaluations(pass, &subjects, crowd, NOW).await.unwrap()
}

pub async fn what_is_ended_was_no_death(store: Arc<dyn EvaluationStore>) {
    for nth in 0..3 {
        let pass = pass(&format!("engine-{nth}"), 1);
        assert_eq!(begun(&*store, &pass, &[7, 3, 5], Crowd::Together).await, [free(); 3], "{nth}");
        store.end_evaluations(&pass, &[3, 5, 7]).await.unwrap();
    }
    assert!(store.set_aside("another", 10).await.unwrap().is_empty());
    assert!(begun(&*store, &pass("a", 1), &[], Crowd::Together).await.is_empty());
}

pub async fn what_an_engine_died_of_is_marked_alone_and_after_two_deaths_not_at_all(
    store: Arc<dyn EvaluationStore>,
) {
    assert_eq!(begun(&*store, &pass("a", 1), &[1, 2], Crowd::Together).await, [free(); 2]);
    let second = begun(&*store, &pass("b", 1), &[2, 3], Crowd::Together).await;
    assert_eq!(second, [left_by(1), free()], "the answers stand in the order of what was asked");
    let alone = begun(&*store, &pass("b", 2), &[2], Crowd::Alone).await;
    assert_eq!(alone, [SubjectMarks { is_marked: true, ..left_by(1) }]);
    for crowd in [Crowd::Together, Crowd::Alone] {
        assert_eq!(begun(&*store, &pass("c", 1), &[2], crowd).await, [left_by(DEATHS_MAX)]);
    }
    let all = store.set_aside("c", 10).await.unwrap();
    assert_eq!(all.len(), 1, "{all:?}");
    let set_aside = &all[0];
    assert_eq!(
        (set_aside.kind, set_aside.id, set_aside.died, set_aside.since),
        (EvaluationKind::Schedule, 2, DEATHS_MAX, NOW)
    );
    assert_eq!((set_aside.namespace.as_str(), set_aside.name.as_str()), ("acme", "daily-2"));
}

pub async fn an_engine_counts_once_however_many_turns_it_had(store: Arc<dyn EvaluationStore>) {
    for number in 1..=3 {
        assert_eq!(begun(&*store, &pass("a", number), &[1], Crowd::Together).await, [free()]);
    }
    assert_eq!(begun(&*store, &pass("b", 1), &[1], Crowd::Together).await, [left_by(1)]);
    assert!(store.set_aside("b", 10).await.unwrap().is_empty());
}

pub async fn a_turn_ends_its_own_marks_only(store: Arc<dyn EvaluationStore>) {
    for number in 1..=2 {
        begun(&*store, &pass("a", number), &[1], Crowd::Together).await;
    }
    store.end_evaluations(&pass("a", 1), &[1]).await.unwrap();
    let other_kind = EvaluationPass { kind: EvaluationKind::Workflow, ..pass("a", 2) };
    store.end_evaluations(&other_kind, &[1]).await.unwrap();
    store.end_evaluations(&pass("b", 2), &[1]).await.unwrap();
    assert_eq!(begun(&*store, &pass("b", 1), &[1], Crowd::Together).await, [left_by(1)], "one is left");
    store.end_evaluations(&pass("a", 2), &[1]).await.unwrap();
    assert_eq!(begun(&*store, &pass("b", 1), &[1], Crowd::Together).await, [free()]);
}

pub async fn kinds_do_not_mix(store: Arc<dyn EvaluationStore>) {
    for kind in EvaluationKind::ALL {
        let pass = EvaluationPass { kind, ..pass(kind.word(), 1) };
        assert_eq!(begun(&*store, &pass, &[1], Crowd::Together).await, [free()]);
    }
}

pub async fn what_is_released_was_no_death_and_own_marks_stay(store: Arc<dyn EvaluationStore>) {
    for engine in ["a", "b"] {
        begun(&*store, &pass(engine, 1), &[1, 2], Crowd::Alone).await;
    }
    assert_eq!(store.set_aside("c", 10).await.unwrap().len(), 2);
    assert_eq!(store.set_aside("c", 1).await.unwrap().len(), 1);
    assert_eq!(store.release_evaluations(EvaluationKind::Bulk, &[1], "c").await.unwrap(), 0);
    assert_eq!(store.release_evaluations(EvaluationKind::Schedule, &[1], "c").await.unwrap(), 2);
    assert_eq!(store.release_evaluations(EvaluationKind::Schedule, &[1], "c").await.unwrap(), 0);
    assert_eq!(begun(&*store, &pass("c", 1), &[1, 2], Crowd::Together).await, [free(), left_by(2)]);
    assert_eq!(store.release_evaluations(EvaluationKind::Schedule, &[1], "c").await.unwrap(), 0, "its own");
    assert_eq!(begun(&*store, &pass("d", 1), &[1], Crowd::Together).await, [left_by(1)]);
}

pub async fn an_engine_that_leaves_leaves_no_mark(store: Arc<dyn EvaluationStore>) {
    for kind in EvaluationKind::ALL {
        begun(&*store, &EvaluationPass { kind, ..pass("a", 1) }, &[1, 2], Crowd::Together).await;
    }
    begun(&*store, &pass("b", 1), &[3], Crowd::Together).await;
    store.leave_evaluations("a").await.unwrap();
    assert_eq!(
        begun(&*store, &pass("c", 1), &[1, 2, 3], Crowd::Together).await,
        [free(), free(), left_by(1)]
    );
}

pub async fn more_than_one_statement_holds_is_marked_and_ended(store: Arc<dyn EvaluationStore>) {
    let ids: Vec<i64> = (1..=1_201).collect();
    let all = begun(&*store, &pass("a", 1), &ids, Crowd::Together).await;
    assert_eq!(all, vec![free(); ids.len()]);
    store.end_evaluations(&pass("a", 1), &ids).await.unwrap();
    assert_eq!(begun(&*store, &pass("b", 1), &ids, Crowd::Together).await, vec![free(); ids.len()]);
}
