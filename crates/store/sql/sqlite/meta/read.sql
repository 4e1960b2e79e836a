-- A counter or a setting of this file. ?1 key.
SELECT value FROM meta WHERE key = ?1
