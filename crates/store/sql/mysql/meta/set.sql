-- Changes a setting of this database. 1 value, 2 name.
UPDATE meta SET value = ? WHERE name = ?
