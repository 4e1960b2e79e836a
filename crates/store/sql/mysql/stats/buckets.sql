-- The buckets in order of time: where each ends (ms, exclusive; NULL: it does not, it is the last), and how many rows it has, as the
-- server estimates it. No parameters.
SELECT CASE WHEN PARTITION_DESCRIPTION = 'MAXVALUE' THEN NULL ELSE CAST(PARTITION_DESCRIPTION AS SIGNED) END,
    CAST(TABLE_ROWS AS SIGNED)
FROM information_schema.PARTITIONS
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'task'
ORDER BY PARTITION_ORDINAL_POSITION
