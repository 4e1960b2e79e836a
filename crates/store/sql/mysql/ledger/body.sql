-- The bytes of a long payload. 1 partition, 2 task id.
SELECT CAST(LENGTH(payload) AS SIGNED) FROM body WHERE partition_no = ? AND id = ?
