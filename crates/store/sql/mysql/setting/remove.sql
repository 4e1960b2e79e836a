-- A scope has nothing set any more. 1 namespace, 2 queue.
DELETE FROM setting WHERE namespace = ? AND queue = ?
