-- Forgets old runs. ?1 created before this (ms), ?2 limit.
DELETE FROM schedule_run WHERE (schedule_id, at, kind, revision, outcome) IN (
    SELECT schedule_id, at, kind, revision, outcome FROM schedule_run WHERE created_at < ?1 ORDER BY created_at LIMIT ?2)
