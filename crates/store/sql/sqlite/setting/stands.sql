-- What stands for a scope. ?1 namespace, ?2 queue (empty: none).
SELECT revision FROM setting WHERE namespace = ?1 AND queue = ?2
