-- What this database holds besides what it should. Answers one name of a table, or none if it has none.
SELECT CAST(table_name AS CHAR) FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY 1 LIMIT 1
