-- Forgets a schedule. In the catalog. 1 id, 2 step that stands.
DELETE FROM schedule WHERE id = ? AND step = ?
