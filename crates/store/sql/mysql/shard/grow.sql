-- One more database. 1 how many there are then, 2 how many there were.
UPDATE meta SET value = ? WHERE name = 'shards' AND value = ?
