-- How far a label has come. 1 below this id nothing is entered yet, or NULL, 2 namespace, 3 queue, 4 label.
UPDATE indexed_label SET below_id = ? WHERE namespace = ? AND queue = ? AND label = ?
