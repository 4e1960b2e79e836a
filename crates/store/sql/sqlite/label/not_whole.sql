-- One row: a queue of the namespace has tasks, and not all of them that have the label are entered. ?1 namespace, ?2 label.
SELECT 1 FROM books WHERE namespace = ?1 AND tasks <> 0 AND NOT EXISTS (
    SELECT 1 FROM indexed_label
    WHERE indexed_label.namespace = ?1 AND indexed_label.queue = books.queue AND label = ?2 AND below_id IS NULL
) LIMIT 1
