-- Puts back what must be kept after all: a success that became stopped between the look and the swap.
-- Only of partitions that are here.
-- FORCE INDEX: after a swap the server knows nothing of how many rows there are.
-- Parameters: after (partition, partition, due_at, partition, due_at, id; exclusive),
-- up to (the same six; inclusive), now (ms).
INSERT INTO task SELECT task_gone.* FROM task_gone FORCE INDEX (PRIMARY)
WHERE (task_gone.partition_no > ?
        OR (task_gone.partition_no = ? AND task_gone.due_at > ?)
        OR (task_gone.partition_no = ? AND task_gone.due_at = ? AND task_gone.id > ?))
    AND (task_gone.partition_no < ?
        OR (task_gone.partition_no = ? AND task_gone.due_at < ?)
        OR (task_gone.partition_no = ? AND task_gone.due_at = ? AND task_gone.id <= ?))
    AND (task_gone.state NOT IN (9, 10, 11) OR task_gone.keep_until > ?)
    AND task_gone.partition_no IN (SELECT hosted.partition_no FROM hosted WHERE hosted.state IN (1, 2))
