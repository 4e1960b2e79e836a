-- Runs whose task was not made, with their schedules. In the catalog. 1 since before this (ms), 2 and 3 those
-- that this schedule (NULL: any, and all of its runs) has planned before this revision (4), 5 limit.
SELECT schedule.id, namespace, name, schedule.revision, step, body, progress, wake_at, schedule.created_at, updated_at, updated_by,
    schedule_run.schedule_id, schedule_run.at, schedule_run.kind, schedule_run.revision, schedule_run.outcome, schedule_run.execute_at,
    schedule_run.run_number, schedule_run.reason, schedule_run.task_ref, schedule_run.unsettled_at, schedule_run.created_at, schedule_run.version
FROM schedule_run FORCE INDEX (schedule_run_unsettled) STRAIGHT_JOIN schedule ON schedule.id = schedule_run.schedule_id
WHERE unsettled_at < ? AND (? IS NULL OR (schedule_id = ? AND kind = 0 AND schedule_run.revision < ?)) ORDER BY unsettled_at LIMIT ?
