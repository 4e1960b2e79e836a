-- A label of which tasks are not entered that stood when it was declared; held to the end of the transaction.
SELECT namespace, queue, label, below_id FROM indexed_label
WHERE below_id IS NOT NULL ORDER BY namespace, queue, label LIMIT 1 FOR UPDATE
