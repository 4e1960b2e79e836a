-- The rest of the tasks that were over at one instant, as over.sql: in a statement of its own, because a condition on
-- (keep_until, id) would not be a range of the index. ?1 the instant (ms), ?2 after this id, ?3 limit.
SELECT * FROM whole_task WHERE keep_until = ?1 AND id > ?2 AND state IN (9, 10, 11) ORDER BY id LIMIT ?3
