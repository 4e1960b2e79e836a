-- The tasks of created runs (NULL: not made yet), by their place in the list. In the catalog. 1 the runs (JSON: [schedule, at (ms), kind, revision]).
SELECT CAST(wanted.nth AS SIGNED), schedule_run.task_ref
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth FOR ORDINALITY, schedule_id BIGINT PATH '$[0]', at BIGINT PATH '$[1]', kind INT PATH '$[2]', revision BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN schedule_run FORCE INDEX (PRIMARY) ON schedule_run.schedule_id = wanted.schedule_id
    AND schedule_run.at = wanted.at AND schedule_run.kind = wanted.kind AND schedule_run.revision = wanted.revision
    AND schedule_run.outcome = 1
