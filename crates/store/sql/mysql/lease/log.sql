-- Keeps what handlers said. No move. Of more than 16,384 bytes of a task the oldest lines go.
-- 1 the rows (JSON: [partition, due_at (ms), id, fence, new lines (whole lines of JSON, at most 16,384 bytes)]).
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    partition_no INT PATH '$[0]', due_at BIGINT PATH '$[1]', id BIGINT PATH '$[2]', fence BIGINT PATH '$[3]',
    said LONGTEXT CHARACTER SET utf8mb4 PATH '$[4]'
)) AS wanted
STRAIGHT_JOIN task ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at
    AND task.id = wanted.id AND task.fence = wanted.fence AND task.state IN (4, 5)
SET task.log = IF(
    LENGTH(COALESCE(task.log, '')) + LENGTH(wanted.said) <= 16384,
    CONCAT(COALESCE(task.log, ''), wanted.said),
    CONVERT(SUBSTRING(
        RIGHT(CAST(CONCAT(COALESCE(task.log, ''), wanted.said) AS BINARY), 16385),
        LOCATE(CHAR(10), RIGHT(CAST(CONCAT(COALESCE(task.log, ''), wanted.said) AS BINARY), 16385)) + 1
    ) USING utf8mb4))
