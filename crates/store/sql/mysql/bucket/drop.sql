-- Where leave.sql is not known. The bucket must be empty.
-- Braces: name.
ALTER TABLE task DROP PARTITION {name}
