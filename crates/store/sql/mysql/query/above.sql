-- The oldest task of this database above an id, or NULL. 1 id.
SELECT MIN(id) FROM registry WHERE id > ?
