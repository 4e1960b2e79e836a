//! Marks of dead engines at what no engine evaluates any more are removed; marks at all else stay, however old they are.

use super::*;

on_both!(marks_at_what_is_gone_or_over_are_removed_and_all_others_stay);

async fn previewed(process: &Process, queue: &str) -> i64 {
    let key = QueueKey { namespace: name("acme"), queue: name(queue) };
    let task = NewTask::new(key, name("k"), process.engine.now().plus(36_000_000));
    process.engine.insert(vec![task], "test").await.unwrap();
    let filter = Filter { queue: Some(name(queue)), ..Filter::default() };
    let bulk = Bulk { action: Action::Cancel { stop_if_fired: false }, filter, rate: 1, reason: None };
    process.bulks.preview(&name("acme"), bulk, "ada").await.unwrap().stored.id
}

async fn marks_at_what_is_gone_or_over_are_removed_and_all_others_stay(world: EvaluationsWorld) {
    let process = world.begins();
    // It is there, and nothing of it is evaluated after the first look.
    let resting = Schedule { enabled: false, ..every_minute() };
    let resting = process.planner.put(&acme("resting"), resting, "ada", |_| true).await.unwrap().schedule.id;
    process.planner.run_once(process.engine.now()).await.unwrap();
    let deleted = process.planner.put(&acme("deleted"), every_minute(), "ada", |_| true).await.unwrap();
    process.planner.delete(&acme("deleted"), "ada", |_| true).await.unwrap();
    let running = process.workflows.create(with_expression("acme")).await.unwrap().0.id;
    let cancelled = process.workflows.create(with_expression("acme")).await.unwrap().0.id;
    process.workflows.cancel(cancelled, "enough").await.unwrap();
    let previews = [previewed(&process, "q1").await, previewed(&process, "q2").await];
    process.bulks.confirm(&name("acme"), previews[1], |_| true, "ada").await.unwrap();
    process.bulks.stop(&name("acme"), previews[1], None, "ada").await.unwrap();
    let all = [
        (EvaluationKind::Schedule, resting, true),
        (EvaluationKind::Schedule, deleted.schedule.id, false),
        (EvaluationKind::Workflow, running.0, true),
        (EvaluationKind::Workflow, cancelled.0, false),
        (EvaluationKind::Workflow, cancelled.0 + 1_000, false),
        (EvaluationKind::Bulk, previews[0], true),
        (EvaluationKind::Bulk, previews[1], false),
    ];
    let marks_of_subject = async |engine: &str, number: i64, kind: EvaluationKind, id: i64| {
        let pass = EvaluationPass { kind, engine: engine.to_owned(), number };
        let subject = Subject { id, namespace: name("acme"), name: id.to_string() };
        world.schedules.begin_evaluations(&pass, &[subject], Crowd::Together, START).await.unwrap()[0]
    };
    for (kind, id, _) in all {
        assert_eq!(
            marks_of_subject("dead", 1, kind, id).await,
            SubjectMarks { is_marked: true, died: 0, at_work: 0 }
        );
    }
    // Only schedules are planned: of workflows and bulk operations nothing is evaluated, and so cleared, meanwhile.
    world.clock.advance_ms(601_000);
    process.planner.run_once(process.engine.now()).await.unwrap();
    for (kind, id, stays) in all {
        let found = marks_of_subject("after", 1, kind, id).await;
        assert_eq!(found.died, usize::from(stays), "{kind:?} {id}: {found:?}");
    }
}
