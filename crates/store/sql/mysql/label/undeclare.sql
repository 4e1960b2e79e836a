-- A label that is not entered any more. 1 namespace, 2 queue, 3 label.
DELETE FROM indexed_label WHERE namespace = ? AND queue = ? AND label = ?
