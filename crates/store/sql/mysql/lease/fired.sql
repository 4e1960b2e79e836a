-- When the last attempts of finished tasks fired, of which only their planned time was known. No move.
-- 1 the rows (JSON: [partition, due_at (ms), id, fence, fired_at (ms)]).
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    partition_no INT PATH '$[0]', due_at BIGINT PATH '$[1]', id BIGINT PATH '$[2]', fence BIGINT PATH '$[3]',
    fired_at BIGINT PATH '$[4]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY) ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at
    AND task.id = wanted.id AND task.fence = wanted.fence
SET task.fired_at = wanted.fired_at
