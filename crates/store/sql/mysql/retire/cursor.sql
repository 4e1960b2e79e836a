-- How far the walk of retention came. No row: it has not begun.
SELECT name, value FROM meta WHERE name IN ('walk_partition', 'walk_due_at', 'walk_id')
