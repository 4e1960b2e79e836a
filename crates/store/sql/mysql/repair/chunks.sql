-- Where the tasks of queues are is entered once more, by whoever enters what stood: engines of an older version enter nothing.
UPDATE meta SET value = (SELECT COALESCE(MAX(registry.id) + 1, 0) FROM registry FORCE INDEX (registry_newest))
WHERE name = 'chunks_below'
