-- What a partition takes along. For each row: 1 partition, 2 namespace, 3 queue, 4 state code, 5 tasks, 6 bytes of payloads
-- that wait.
INSERT INTO taken_along (partition_no, namespace, queue, state, tasks, bytes)
VALUES (?, ?, ?, ?, ?, ?)
