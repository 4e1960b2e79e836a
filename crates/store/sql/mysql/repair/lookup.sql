-- All that tasks are looked up by is entered once more, by whoever enters labels: engines of an older version enter nothing.
UPDATE indexed_label SET
    begun_id = (SELECT COALESCE(MAX(registry.id), 0) + 1 FROM registry FORCE INDEX (registry_newest)),
    below_id = (SELECT MAX(registry.id) + 1 FROM registry FORCE INDEX (registry_newest))
