-- Created runs get another outcome; why each was made stays before why it is withdrawn. 1 the runs (JSON: [schedule, at (ms), kind, revision]), 2 outcome, 3 reason.
UPDATE IGNORE JSON_TABLE(?, '$[*]' COLUMNS (
    schedule_id BIGINT PATH '$[0]', at BIGINT PATH '$[1]', kind INT PATH '$[2]', revision BIGINT PATH '$[3]'
)) AS taken
STRAIGHT_JOIN schedule_run FORCE INDEX (PRIMARY) ON schedule_run.schedule_id = taken.schedule_id
    AND schedule_run.at = taken.at AND schedule_run.kind = taken.kind AND schedule_run.revision = taken.revision
    AND schedule_run.outcome = 1
SET schedule_run.outcome = ?, schedule_run.reason = CONCAT_WS('; ', schedule_run.reason, ?), schedule_run.unsettled_at = NULL
