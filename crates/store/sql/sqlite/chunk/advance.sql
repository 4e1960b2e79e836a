-- Tasks below this id are not entered yet; 0: all are. ?1 id.
UPDATE meta SET value = ?1 WHERE key = 'chunks_below'
