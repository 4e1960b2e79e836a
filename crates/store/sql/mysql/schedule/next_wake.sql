-- When the first schedule has something to do; no row: none has. In the catalog.
SELECT wake_at FROM schedule WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1
