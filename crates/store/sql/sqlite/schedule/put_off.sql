-- A run cannot be settled now. ?1 schedule, ?2 at (ms), ?3 kind, ?4 revision, ?5 now (ms).
UPDATE schedule_run SET unsettled_at = ?5
WHERE schedule_id = ?1 AND at = ?2 AND kind = ?3 AND revision = ?4 AND outcome = 1 AND unsettled_at IS NOT NULL
