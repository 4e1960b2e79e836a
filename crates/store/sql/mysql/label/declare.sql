-- A label that is entered from here on; what stands already has ids below the next one. What is declared already stays as it
-- is. In the transaction that has turned the epoch: nobody inserts labels meanwhile. 1 namespace, 2 queue, 3 label.
INSERT IGNORE INTO indexed_label (namespace, queue, label, begun_id, below_id)
SELECT ?, ?, ?, COALESCE(MAX(id), 0) + 1, MAX(id) + 1 FROM registry
