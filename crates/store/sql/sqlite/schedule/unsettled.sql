-- Runs whose task was not made, with their schedules. ?1 since before this (ms), ?2 limit, ?3 those that
-- this schedule (NULL: any, and all of its runs) has planned before this revision (?4).
SELECT schedule.id, namespace, name, schedule.revision, step, body, progress, wake_at, schedule.created_at, updated_at, updated_by,
    schedule_run.schedule_id, schedule_run.at, schedule_run.kind, schedule_run.revision, schedule_run.outcome, schedule_run.execute_at,
    schedule_run.run_number, schedule_run.reason, schedule_run.task_ref, schedule_run.unsettled_at, schedule_run.created_at, schedule_run.version
FROM schedule_run JOIN schedule ON schedule.id = schedule_run.schedule_id
WHERE unsettled_at IS NOT NULL AND unsettled_at < ?1 AND (?3 IS NULL OR (schedule_id = ?3 AND kind = 0 AND schedule_run.revision < ?4)) ORDER BY unsettled_at LIMIT ?2
