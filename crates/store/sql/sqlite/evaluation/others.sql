-- How many other engines have marked a subject. ?1 kind, ?2 id, ?3 engine.
SELECT COUNT(DISTINCT engine) FROM evaluation WHERE kind = ?1 AND id = ?2 AND engine <> ?3
