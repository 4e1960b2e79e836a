-- Extends leases that are still held. No move.
-- 1 the rows (JSON: [partition, due_at (ms), id, fence, lease_until (ms, already bounded by timeout_ms), progress (JSON
-- text), executor, fired_at (ms); each null: as it was]), 2 now (ms).
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    partition_no INT PATH '$[0]', due_at BIGINT PATH '$[1]', id BIGINT PATH '$[2]', fence BIGINT PATH '$[3]',
    lease_until BIGINT PATH '$[4]', progress LONGTEXT CHARACTER SET utf8mb4 PATH '$[5]',
    lease_executor LONGTEXT CHARACTER SET utf8mb4 PATH '$[6]', fired_at BIGINT PATH '$[7]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY) ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at
    AND task.id = wanted.id AND task.fence = wanted.fence AND task.state IN (4, 5)
SET
    task.lease_until = wanted.lease_until,
    task.progress = COALESCE(wanted.progress, task.progress),
    task.lease_executor = COALESCE(wanted.lease_executor, task.lease_executor),
    task.fired_at = COALESCE(wanted.fired_at, task.fired_at),
    task.updated_at = ?
