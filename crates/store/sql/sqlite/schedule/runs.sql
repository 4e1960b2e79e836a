-- Runs of a schedule, the latest instant first. ?1 schedule, ?2 from (ms, inclusive), ?3 before (ms), ?4 limit.
SELECT schedule_run.schedule_id, schedule_run.at, schedule_run.kind, schedule_run.revision, schedule_run.outcome, schedule_run.execute_at,
    schedule_run.run_number, schedule_run.reason, schedule_run.task_ref, schedule_run.unsettled_at, schedule_run.created_at, schedule_run.version
FROM schedule_run WHERE schedule_id = ?1 AND at >= ?2 AND at < ?3 ORDER BY at DESC LIMIT ?4
