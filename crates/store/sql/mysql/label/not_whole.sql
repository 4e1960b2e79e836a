-- One row: a queue of the namespace has tasks here, and not all of them that have the label are entered.
-- 1 namespace, 2 namespace, 3 label.
SELECT 1 FROM (
    SELECT queue FROM books WHERE namespace = ? GROUP BY queue HAVING SUM(tasks) <> 0
) AS standing
WHERE standing.queue NOT IN (
    SELECT queue FROM indexed_label WHERE namespace = ? AND label = ? AND below_id IS NULL
)
LIMIT 1
