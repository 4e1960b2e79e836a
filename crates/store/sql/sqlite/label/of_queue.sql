-- What is declared of a queue. ?1 namespace, ?2 queue.
SELECT label FROM indexed_label WHERE namespace = ?1 AND queue = ?2
