-- Which of these tasks are still in flight, and until when: without locks.
-- 1 the places (JSON: [number, partition, due_at (ms), id]). Answers number, fence, lease_until (ms).
SELECT wanted.nth, fence, lease_until
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    nth INT PATH '$[0]', partition_no INT PATH '$[1]', due_at BIGINT PATH '$[2]', id BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = wanted.partition_no AND task.due_at = wanted.due_at AND task.id = wanted.id
    AND task.state IN (4, 5)
