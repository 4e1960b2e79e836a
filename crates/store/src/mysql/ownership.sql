-- Which engine owns which partitions, which engines are alive, and the limiter's state. On the database's clock.

-- name: acquire
-- Takes partitions that are free or whose lease has ended, under a new term, and those that the engine still holds,
-- under the same. The term is assigned first, because an assignment sees those before it.
-- parameters: 1 engine, 2 engine, 3 ttl (ms), 4 engine, 5 partition (the list).
-- holes: {list} repeated for each partition or tenure.
UPDATE owner SET
    term = term + (engine <> ? OR held_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000),
    engine = ?,
    held_until = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 + ?
WHERE (engine = ? OR held_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000)
    AND partition_no IN ({list: ?})

-- name: heartbeat
-- Saves that an engine is alive. The clock is the database's.
-- parameters: 1 engine, 2 ttl (ms), 3 how many databases it names, 4 whether its hot set answers (1; 0: it does not,
-- 2: it has none), 5 the databases that it does not reach (numbers, separated by commas), 6 to 9 the last four again.
INSERT INTO engine (name, alive_until, names_databases, has_hot, without_databases, enters_chunks)
VALUES (?, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 + ?, ?, ?, ?, 1)
ON DUPLICATE KEY UPDATE alive_until = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 + ?,
    names_databases = ?, has_hot = ?, without_databases = ?, enters_chunks = 1

-- name: read_clock
-- Reads the database's clock (ms), on which leases are compared.
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000

-- name: insert_owners
-- Inserts rows for partitions that nobody has asked for yet. Existing ones stay as they are.
-- parameters: of each row: 1 partition.
-- holes: {rows} repeated for each partition.
INSERT IGNORE INTO owner (partition_no, engine, term, held_until)
VALUES {rows: (?, '', 0, 0)}

-- name: leave
-- Deletes an engine that stops, and engines that fell silent more than an hour ago.
-- parameters: 1 engine.
DELETE FROM engine
WHERE name = ? OR alive_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 - 3600000

-- name: list_live_engines
-- Lists the engines that are alive, by name: whether the hot set answers (1; 0: it does not, 2: it has none), and the
-- databases that the engine does not reach (NULL: unknown).
SELECT name, has_hot, without_databases FROM engine
WHERE alive_until > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
ORDER BY name

-- name: list_owners
-- Lists every partition that ever had an owner, and how much longer its lease lasts (ms; 0: it has ended).
SELECT partition_no, term, engine,
    GREATEST(held_until - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000, 0) AS left_ms
FROM owner
WHERE term > 0
ORDER BY partition_no

-- name: raise_terms
-- Raises the term of partitions that the engine holds by these tenures, after the hot set has seen newer terms. An
-- engine that has lost its lease, or has another term, raises nothing.
-- parameters: 1 term, 2 engine, 3 partition (the list), 4 tenure (the list; term * 65536 + partition).
-- holes: {list} repeated for each partition or tenure.
UPDATE owner SET term = GREATEST(term, ?)
WHERE engine = ? AND held_until > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
    AND partition_no IN ({list: ?})
    AND term * 65536 + partition_no IN ({list: ?})

-- name: release
-- Ends leases at once. A lease that has ended by itself, or has another owner by now, stays as it is.
-- parameters: 1 engine, 2 partition (the list), 3 tenure (the list; term * 65536 + partition).
-- holes: {list} repeated for each partition or tenure.
UPDATE owner SET held_until = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
WHERE engine = ? AND held_until > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
    AND partition_no IN ({list: ?})
    AND term * 65536 + partition_no IN ({list: ?})

-- name: renew
-- Extends leases that have not ended. A tenure is one number, term * 65536 + partition: the server would not look up
-- pairs in a list by key.
-- parameters: 1 ttl (ms), 2 engine, 3 partition (the list), 4 tenure (the list).
-- holes: {list} repeated for each partition or tenure.
UPDATE owner SET held_until = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 + ?
WHERE engine = ? AND held_until > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
    AND partition_no IN ({list: ?})
    AND term * 65536 + partition_no IN ({list: ?})

-- name: read_tenures
-- Reads the terms of these partitions, and 1 where this engine holds a lease that has not ended.
-- parameters: 1 engine, 2 partition (the list).
-- holes: {list} repeated for each partition or tenure.
SELECT partition_no, term,
    CAST(engine = ? AND held_until > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 AS SIGNED) AS holds
FROM owner
WHERE partition_no IN ({list: ?})

-- name: read_limiter
-- Reads the state of the limiter of engines without Redis, its version, and the database's clock (ms).
-- parameters: 1 the version whose state is known (NULL is answered in its place).
SELECT version, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000, IF(version = ?, NULL, state)
FROM limiter WHERE one = 1

-- name: swap_limiter
-- Replaces the state of the limiter, if its version is the expected one. No row: it has another version.
-- parameters: 1 state, 2 expected version.
UPDATE limiter SET state = ?, version = version + 1 WHERE one = 1 AND version = ?
