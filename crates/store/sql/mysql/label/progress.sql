-- How far each label of this database is.
SELECT namespace, queue, label, begun_id, below_id FROM indexed_label WHERE queue <> '' ORDER BY namespace, queue, label
