-- A counter or a setting of this database. 1 name.
SELECT value FROM meta WHERE name = ?
