-- A label that is not entered any more. ?1 namespace, ?2 queue, ?3 label.
DELETE FROM indexed_label WHERE namespace = ?1 AND queue = ?2 AND label = ?3
