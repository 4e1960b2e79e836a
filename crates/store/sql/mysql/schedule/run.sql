-- What became of instants; what stands stays.
-- 1 the runs (JSON: [schedule, at (ms), kind, revision, outcome, execute_at (ms), number, reason, unsettled_at (ms, null:
-- settled), now (ms), version of its task (null: it has none)]).
INSERT IGNORE INTO schedule_run
    (schedule_id, at, kind, revision, outcome, execute_at, run_number, reason, unsettled_at, created_at, version)
SELECT schedule_id, at, kind, revision, outcome, execute_at, run_number, reason, unsettled_at, created_at, version
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    schedule_id BIGINT PATH '$[0]', at BIGINT PATH '$[1]', kind INT PATH '$[2]', revision BIGINT PATH '$[3]',
    outcome INT PATH '$[4]', execute_at BIGINT PATH '$[5]', run_number BIGINT PATH '$[6]',
    reason LONGTEXT CHARACTER SET utf8mb4 PATH '$[7]', unsettled_at BIGINT PATH '$[8]', created_at BIGINT PATH '$[9]',
    version BIGINT PATH '$[10]'
)) AS made
