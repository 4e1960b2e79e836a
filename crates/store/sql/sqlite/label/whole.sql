-- One row: all tasks of a queue that have the label are entered. ?1 namespace, ?2 queue, ?3 label.
SELECT 1 FROM indexed_label WHERE namespace = ?1 AND queue = ?2 AND label = ?3 AND below_id IS NULL
