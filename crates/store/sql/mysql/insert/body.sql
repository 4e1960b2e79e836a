-- A long payload, beside its task. 1 partition, 2 task id, 3 payload.
INSERT INTO body (partition_no, id, payload) VALUES (?, ?, ?)
ON DUPLICATE KEY UPDATE payload = VALUES(payload)
