-- Opening a database, and emptying and filling its tables.

-- name: count_objects
-- Counts the tables and the like of a database: none if it is new.
SELECT count(*) FROM sqlite_schema

-- name: insert_row
-- Inserts one row into a table.
-- holes: {table} name of the table, {columns} a mark for each value, in the order of the columns.
INSERT INTO "{table}" VALUES ({columns})

-- name: delete_rows
-- Empties a table.
-- holes: {table} name of the table.
DELETE FROM "{table}"

-- name: list_rows
-- Lists all rows of a table.
-- holes: {table} name of the table.
SELECT * FROM "{table}"

-- name: list_tables
-- Lists the tables.
SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name
