-- Empties a table. No parameters; {table}: its name.
DELETE FROM "{table}"
