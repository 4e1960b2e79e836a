-- None of these tasks is deleted until the end of the transaction. 1 from this id, 2 to this id (inclusive).
SELECT id FROM registry FORCE INDEX (registry_newest) WHERE id >= ? AND id <= ? LOCK IN SHARE MODE
