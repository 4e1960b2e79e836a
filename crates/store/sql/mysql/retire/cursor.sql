-- How far the walk of retention came (no row: it has not begun), up to which slice of time what ended ahead of its time was
-- looked for, and whether this database has archives (`archive_place`).
SELECT name, value FROM meta
WHERE name IN ('walk_partition', 'walk_due_at', 'walk_id', 'ahead_slice', 'ahead_id', 'archive_place')
