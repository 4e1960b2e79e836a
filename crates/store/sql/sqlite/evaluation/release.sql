-- Removes the marks that dead engines have left at a subject. ?1 kind, ?2 id, ?3 the engine that asks.
DELETE FROM evaluation WHERE kind = ?1 AND id = ?2 AND engine <> ?3
