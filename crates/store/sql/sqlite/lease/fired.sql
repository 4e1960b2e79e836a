-- When the last attempt of a task that is finished fired, of which only its planned time was known; no move. ?1 id, ?2 fence, ?3 fired_at (ms).
UPDATE task SET fired_at = ?3
WHERE id = ?1 AND fence = ?2 AND state IN (8, 9, 10, 11)
