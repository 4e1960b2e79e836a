-- Before those that are paused are put in.
DELETE FROM paused_queue
