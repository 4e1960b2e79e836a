-- The task of a run is made. ?1 schedule, ?2 at (ms), ?3 kind, ?4 revision, ?5 reference of the task, ?6 reason (NULL: as it stands).
UPDATE schedule_run SET task_ref = ?5, unsettled_at = NULL, reason = coalesce(?6, reason)
WHERE schedule_id = ?1 AND at = ?2 AND kind = ?3 AND revision = ?4 AND outcome = 1 AND unsettled_at IS NOT NULL
