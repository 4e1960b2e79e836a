-- How large the tables are, as the server estimates it: rows and bytes of task, bytes of all, buckets, how many of
-- them are wider than they should be (NULL: nobody has looked); and the name of the database.
SELECT CAST(DATABASE() AS CHAR),
    CAST(COALESCE(SUM(CASE WHEN TABLE_NAME = 'task' THEN TABLE_ROWS END), 0) AS SIGNED),
    CAST(COALESCE(SUM(CASE WHEN TABLE_NAME = 'task' THEN DATA_LENGTH + INDEX_LENGTH END), 0) AS SIGNED),
    CAST(COALESCE(SUM(DATA_LENGTH + INDEX_LENGTH), 0) AS SIGNED),
    (SELECT COUNT(*) FROM information_schema.PARTITIONS
        WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'task' AND PARTITION_DESCRIPTION <> 'MAXVALUE'),
    (SELECT value FROM meta WHERE name = 'buckets_wide')
FROM information_schema.TABLES
WHERE TABLE_SCHEMA = DATABASE()
