-- How often archives of this database were published; none: never.
SELECT value FROM meta WHERE name = 'archived'
