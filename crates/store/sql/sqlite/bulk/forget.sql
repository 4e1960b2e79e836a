-- Forgets an operation. ?1 id.
DELETE FROM bulk WHERE id = ?1
