-- Forgets a schedule. ?1 id, ?2 step that stands.
DELETE FROM schedule WHERE id = ?1 AND step = ?2
