-- Forgets answers whose time is over. ?1 now (ms), ?2 limit.
DELETE FROM reply WHERE (namespace, key) IN (
    SELECT namespace, key FROM reply WHERE keep_until <= ?1 ORDER BY keep_until LIMIT ?2
)
