-- Partitions of which rows are here, and which are not here: copies, or what a move has left over.
SELECT partition_no FROM (
    SELECT DISTINCT partition_no FROM task
    UNION SELECT DISTINCT partition_no FROM registry
    UNION SELECT DISTINCT partition_no FROM moved
    UNION SELECT DISTINCT partition_no FROM body
    UNION SELECT DISTINCT partition_no FROM lookup
) AS found
WHERE partition_no NOT IN (SELECT partition_no FROM hosted WHERE state IN (1, 2))
ORDER BY partition_no
