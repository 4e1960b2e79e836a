-- How far each label is.
SELECT namespace, queue, label, begun_id, below_id FROM indexed_label ORDER BY namespace, queue, label
