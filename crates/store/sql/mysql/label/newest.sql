-- The newest task of this database that is entered under a term, below an id, or NULL. 1 term, 2 id.
SELECT MAX(id) FROM lookup WHERE term = ? AND id < ?
