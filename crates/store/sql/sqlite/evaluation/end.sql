-- Removes a mark. ?1 kind, ?2 id, ?3 engine, ?4 turn.
DELETE FROM evaluation WHERE kind = ?1 AND id = ?2 AND engine = ?3 AND turn = ?4
