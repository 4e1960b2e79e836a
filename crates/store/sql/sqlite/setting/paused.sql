-- The queues from which nothing starts.
SELECT namespace, queue FROM setting WHERE paused = 1
