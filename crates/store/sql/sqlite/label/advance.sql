-- How far a label has come. ?1 below this id nothing is entered yet, or NULL, ?2 namespace, ?3 queue, ?4 label.
UPDATE indexed_label SET below_id = ?1 WHERE namespace = ?2 AND queue = ?3 AND label = ?4
