-- Runs cannot be settled now. 1 the runs (JSON: [schedule, at (ms), kind, revision]), 2 now (ms).
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    schedule_id BIGINT PATH '$[0]', at BIGINT PATH '$[1]', kind INT PATH '$[2]', revision BIGINT PATH '$[3]'
)) AS late
STRAIGHT_JOIN schedule_run FORCE INDEX (PRIMARY) ON schedule_run.schedule_id = late.schedule_id
    AND schedule_run.at = late.at AND schedule_run.kind = late.kind AND schedule_run.revision = late.revision
    AND schedule_run.outcome = 1
SET schedule_run.unsettled_at = ?
WHERE schedule_run.unsettled_at IS NOT NULL
