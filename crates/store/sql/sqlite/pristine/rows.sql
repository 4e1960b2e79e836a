-- All of a table. No parameters; {table}: its name.
SELECT * FROM "{table}"
