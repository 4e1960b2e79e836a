-- Tasks below this id are not entered in chunks yet; 0: all are; no row: it is not begun.
SELECT value FROM meta WHERE name = 'chunks_below'
