-- None of these tasks is deleted until the end of the transaction. 1 from this id, 2 to this id (inclusive).
-- The order keeps the server from reading, and locking, the whole registry while it believes that there are no rows.
SELECT id FROM registry FORCE INDEX (registry_newest) WHERE id >= ? AND id <= ? ORDER BY id LIMIT 1000000 LOCK IN SHARE MODE
