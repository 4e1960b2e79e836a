-- The next namespace that has schedules, by name. ?1 behind this name.
SELECT namespace FROM schedule WHERE namespace > ?1 ORDER BY namespace LIMIT 1
