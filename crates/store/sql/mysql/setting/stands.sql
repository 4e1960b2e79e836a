-- What stands for a scope. 1 namespace, 2 queue (empty: none).
SELECT revision, paused, body FROM setting WHERE namespace = ? AND queue = ?
