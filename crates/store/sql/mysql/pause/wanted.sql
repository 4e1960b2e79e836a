-- The queues from which nothing should start. In the catalog.
SELECT namespace, queue FROM setting WHERE paused = 1
