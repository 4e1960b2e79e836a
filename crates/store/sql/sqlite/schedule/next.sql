-- The number of the next change.
UPDATE meta SET value = value + 1 WHERE key = 'schedules_revision' RETURNING value
