-- Paused queues. For each row: 1 namespace, 2 queue.
INSERT INTO paused_queue (namespace, queue)
VALUES (?, ?)
