-- The tasks of runs are made. 1 the runs (JSON: [schedule, at (ms), kind, revision, reference of the task, reason (null: as it stands)]).
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    schedule_id BIGINT PATH '$[0]', at BIGINT PATH '$[1]', kind INT PATH '$[2]', revision BIGINT PATH '$[3]',
    task_ref VARCHAR(64) CHARACTER SET ascii PATH '$[4]',
    reason LONGTEXT CHARACTER SET utf8mb4 PATH '$[5]'
)) AS made
STRAIGHT_JOIN schedule_run FORCE INDEX (PRIMARY) ON schedule_run.schedule_id = made.schedule_id
    AND schedule_run.at = made.at AND schedule_run.kind = made.kind AND schedule_run.revision = made.revision
    AND schedule_run.outcome = 1
SET schedule_run.task_ref = made.task_ref, schedule_run.unsettled_at = NULL,
    schedule_run.reason = COALESCE(made.reason, schedule_run.reason)
WHERE schedule_run.unsettled_at IS NOT NULL
