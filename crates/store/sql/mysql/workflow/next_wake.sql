-- When the first workflow is to be looked at; no row: none is.
SELECT wake_at FROM workflow WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1
