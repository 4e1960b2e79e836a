-- The earliest time at which an operation has something to do.
SELECT wake_at FROM bulk WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1
