-- The bytes of a long payload. ?1 id.
SELECT length(payload) FROM body WHERE id = ?1
