-- What stands for a scope. 1 namespace, 2 queue (empty: none).
SELECT revision, paused FROM setting WHERE namespace = ? AND queue = ?
