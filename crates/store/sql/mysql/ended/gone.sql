-- Forgets batches: what was still in flight of them stands in newer ones. 1 the batches (JSON: array of numbers).
DELETE lease_batch FROM JSON_TABLE(?, '$[*]' COLUMNS (batch_id BIGINT PATH '$')) AS wanted
STRAIGHT_JOIN lease_batch ON lease_batch.batch_id = wanted.batch_id
