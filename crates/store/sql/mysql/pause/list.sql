-- The paused queues, as of the epoch that this transaction holds.
SELECT namespace, queue FROM paused_queue
