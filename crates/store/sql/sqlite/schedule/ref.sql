-- The task of a created run. ?1 schedule, ?2 at (ms), ?3 kind, ?4 revision.
SELECT task_ref FROM schedule_run
WHERE schedule_id = ?1 AND at = ?2 AND kind = ?3 AND revision = ?4 AND outcome = 1 AND task_ref IS NOT NULL
