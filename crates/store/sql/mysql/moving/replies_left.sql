-- Replies that a partition left behind. 1 namespace, 2 limit.
DELETE FROM reply WHERE namespace = ? LIMIT ?
