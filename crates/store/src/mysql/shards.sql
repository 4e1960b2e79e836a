-- The databases of the cluster, the placement of partitions, and the counters and settings of a database (`meta`).

-- name: draw_number
-- Draws a random number above 0.
SELECT CAST(FLOOR(1 + RAND() * 9007199254740991) AS SIGNED)

-- name: insert_meta
-- Sets a value that is not set yet. An existing one stays.
-- parameters: 1 name, 2 value.
INSERT IGNORE INTO meta (name, value) VALUES (?, ?)

-- name: read_meta
-- Reads a counter or a setting of this database.
-- parameters: 1 name.
SELECT value FROM meta WHERE name = ?

-- name: set_meta
-- Changes a setting of this database.
-- parameters: 1 value, 2 name.
UPDATE meta SET value = ? WHERE name = ?

-- name: take_numbers
-- Takes numbers from a counter for good: as many as asked, up to the insert id that the statement answers.
-- parameters: 1 how many, 2 name of the counter.
UPDATE meta SET value = LAST_INSERT_ID(value + ?) WHERE name = ?

-- name: add_database
-- Raises the number of databases, if the present one is the expected one.
-- parameters: 1 new number, 2 expected number.
UPDATE meta SET value = ? WHERE name = 'shards' AND value = ?

-- name: read_members
-- Reads how many databases the cluster has, and the generation of the placement. In the catalog.
SELECT name, value FROM meta WHERE name IN ('shards', 'placement')

-- name: read_watched
-- Reads what an engine watches each second: how many databases the cluster has, the generation of the placement, the
-- revision of the pauses, and whether a partition is being moved (1 or 0). In the catalog.
SELECT
    (SELECT value FROM meta WHERE name = 'shards'),
    (SELECT value FROM meta WHERE name = 'placement'),
    (SELECT value FROM meta WHERE name = 'pauses_revision'),
    CAST(EXISTS (SELECT 1 FROM partition_move) AS SIGNED)

-- name: insert_placement
-- Places partitions that have no database yet. An existing placement stays.
-- parameters: of each row: 1 partition, 2 number of the database.
-- holes: {rows} repeated for each row.
INSERT IGNORE INTO placement (partition_no, shard_no)
VALUES {rows: (?, ?)}

-- name: count_placed
-- Counts the partitions that have a database.
SELECT COUNT(*) FROM placement

-- name: list_placement
-- Lists the database of each partition, in order of the partitions.
SELECT partition_no, shard_no FROM placement ORDER BY partition_no
