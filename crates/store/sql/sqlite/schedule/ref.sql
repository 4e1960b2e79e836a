-- The task of a created run; NULL: not made yet. ?1 schedule, ?2 at (ms), ?3 kind, ?4 revision.
SELECT task_ref FROM schedule_run
WHERE schedule_id = ?1 AND at = ?2 AND kind = ?3 AND revision = ?4 AND outcome = 1
