-- A new mover at the new place: copies may come. What has left lately comes back over its remains.
-- 1 partition, 2 term.
INSERT INTO hosted (partition_no, state, term) VALUES (?, 3, ?)
ON DUPLICATE KEY UPDATE term = IF(state IN (3, 4), GREATEST(term, VALUES(term)), term), state = IF(state = 4, 3, state)
