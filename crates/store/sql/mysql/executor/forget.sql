-- Forgets those that fell silent or left long ago. 1 silent since before this (ms), 2 left before this (ms).
DELETE FROM executor WHERE (gone = 1 AND alive_until < ?) OR (gone = 2 AND seen_at < ?)
