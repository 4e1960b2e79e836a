-- How many tables and the like a database has: none, if it is new.
SELECT count(*) FROM sqlite_schema
