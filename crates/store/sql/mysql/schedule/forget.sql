-- Forgets old runs. In the catalog. 1 created before this (ms), 2 limit.
DELETE FROM schedule_run WHERE created_at < ? ORDER BY created_at LIMIT ?
