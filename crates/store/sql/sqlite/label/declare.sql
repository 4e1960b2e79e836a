-- A label that is entered from here on; what stands already has ids below the next one. What is declared already stays as it
-- is. ?1 namespace, ?2 queue, ?3 label.
INSERT OR IGNORE INTO indexed_label (namespace, queue, label, begun_id, below_id)
VALUES (?1, ?2, ?3, coalesce((SELECT max(id) FROM task), 0) + 1, (SELECT max(id) FROM task) + 1)
