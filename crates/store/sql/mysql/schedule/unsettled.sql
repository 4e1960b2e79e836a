-- Runs whose task was not made, with their schedules. In the catalog. 1 since before this (ms), 2 and 3 of this
-- schedule (NULL: of any), 4 limit.
SELECT schedule.id, namespace, name, schedule.revision, step, body, progress, wake_at, schedule.created_at, updated_at, updated_by,
    schedule_run.schedule_id, schedule_run.at, schedule_run.kind, schedule_run.revision, schedule_run.outcome, schedule_run.execute_at,
    schedule_run.run_number, schedule_run.reason, schedule_run.task_ref, schedule_run.unsettled_at, schedule_run.created_at
FROM schedule_run FORCE INDEX (schedule_run_unsettled) STRAIGHT_JOIN schedule ON schedule.id = schedule_run.schedule_id
WHERE unsettled_at < ? AND (? IS NULL OR schedule_id = ?) ORDER BY unsettled_at LIMIT ?
