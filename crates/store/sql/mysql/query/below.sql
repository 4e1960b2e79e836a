-- The newest task of this database below an id, or NULL. 1 id.
SELECT MAX(id) FROM registry WHERE id < ?
