-- One row: all tasks of a queue that have the label are entered here. 1 namespace, 2 queue, 3 label.
SELECT 1 FROM indexed_label WHERE namespace = ? AND queue = ? AND label = ? AND below_id IS NULL
