-- A created run gets another outcome; why it was made stays before why it is withdrawn. ?1 schedule, ?2 at (ms), ?3 kind, ?4 revision, ?5 reason, ?6 outcome.
UPDATE OR REPLACE schedule_run SET outcome = ?6, reason = coalesce(reason || '; ', '') || ?5, unsettled_at = NULL
WHERE schedule_id = ?1 AND at = ?2 AND kind = ?3 AND revision = ?4 AND outcome = 1
