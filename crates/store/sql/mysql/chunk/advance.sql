-- Tasks below this id are not entered yet; 0: all are. 1 id.
UPDATE meta SET value = ? WHERE name = 'chunks_below'
