-- References of tasks that were finished long before they were due, and are over in a slice of time: by its term in
-- `lookup`. 1 term, 2 after this id, 3 limit.
SELECT lookup.partition_no, registry.due_at, lookup.id FROM lookup FORCE INDEX (PRIMARY)
STRAIGHT_JOIN registry FORCE INDEX (registry_newest)
    ON registry.id = lookup.id AND registry.partition_no = lookup.partition_no
WHERE lookup.term = ? AND lookup.id > ?
ORDER BY lookup.id LIMIT ?
