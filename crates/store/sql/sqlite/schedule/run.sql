-- What became of an instant; one that stands stays.
-- ?1 schedule, ?2 at (ms), ?3 kind, ?4 revision, ?5 outcome, ?6 execute_at (ms), ?7 number, ?8 reason, ?9 unsettled_at (ms,
-- NULL: settled), ?10 now (ms), ?11 version of its task (NULL: it has none).
INSERT INTO schedule_run (schedule_id, at, kind, revision, outcome, execute_at, run_number, reason, unsettled_at, created_at, version)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
ON CONFLICT (schedule_id, at, kind, revision, outcome) DO NOTHING
