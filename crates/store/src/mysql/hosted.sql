-- The partitions that a database hosts: every writer checks and locks them, a mover changes them. States: 1 open, 2
-- closed, 3 arriving, 4 left.

-- name: list_hosted
-- Lists the partitions that this database hosts.
SELECT partition_no FROM hosted WHERE state IN (1, 2) ORDER BY partition_no

-- name: begin_arrival
-- Begins the arrival of a partition for a new mover: it may insert copies. A partition that left lately arrives over
-- its remains.
-- parameters: 1 partition, 2 term.
INSERT INTO hosted (partition_no, state, term) VALUES (?, 3, ?)
ON DUPLICATE KEY UPDATE term = IF(state IN (3, 4), GREATEST(term, VALUES(term)), term), state = IF(state = 4, 3, state)

-- name: close
-- Closes a partition for writers. Waits for transactions under way, but not for long: later ones wait behind it.
-- parameters: 1 partition, 2 term.
UPDATE hosted SET state = 2 WHERE partition_no = ? AND state = 1 AND term = ?

-- name: lock_hosted
-- Lists the states of the hosted partitions and locks them against closing until the end of the transaction. One in
-- state 2 is about to leave: then nobody settles accounts.
SELECT state FROM hosted WHERE state IN (1, 2) LOCK IN SHARE MODE

-- name: insert_initial
-- Inserts the partitions that a database has from the beginning.
-- parameters: of each row: 1 partition.
-- holes: {rows} repeated for each row.
INSERT IGNORE INTO hosted (partition_no, state, term)
VALUES {rows: (?, 1, 0)}

-- name: delete
-- Deletes a partition of which no rows are left here.
-- parameters: 1 partition, 2 state (arriving or left), 3 term.
DELETE FROM hosted WHERE partition_no = ? AND state = ? AND term = ?

-- name: lock_for_move
-- Locks a partition at the beginning of a mover's transaction; no row: another mover has taken over, or the state has
-- changed.
-- parameters: 1 partition, 2 state, 3 term.
SELECT state FROM hosted WHERE partition_no = ? AND state = ? AND term = ? FOR UPDATE

-- name: filter_hosted
-- Lists which of these partitions this database hosts, after a read, to know that the read was in the right database.
-- parameters: 1 partitions (JSON: array of numbers).
SELECT hosted.partition_no
FROM JSON_TABLE(?, '$[*]' COLUMNS (partition_no INT PATH '$')) AS wanted
STRAIGHT_JOIN hosted ON hosted.partition_no = wanted.partition_no AND hosted.state IN (1, 2)

-- name: set_long_lock_wait
-- Sets the lock wait (s) of this connection back to that of `set_session`.
SET SESSION innodb_lock_wait_timeout = 10

-- name: begin_on_all
-- Begins a transaction that writes in partitions it does not know beforehand, as `begin_on_some`.
BEGIN;
SELECT partition_no FROM hosted WHERE state = 1 LOCK IN SHARE MODE

-- name: begin_on_some
-- Begins a transaction that writes, and locks its partitions: none of them leaves before it ends. Answers those that
-- may be written here. One round trip, hence numbers in the text.
-- holes: {partitions} numbers of partitions, separated by commas.
BEGIN;
SELECT partition_no FROM hosted FORCE INDEX (PRIMARY) WHERE partition_no IN ({partitions}) AND state = 1 LOCK IN SHARE MODE

-- name: reopen
-- Opens a partition that an earlier mover closed; never one that a later mover closed.
-- parameters: 1 term, 2 partition, 3 term.
UPDATE hosted SET state = 1, term = ? WHERE partition_no = ? AND state = 2 AND term < ?

-- name: set_short_lock_wait
-- Sets for how long (s) closing a partition waits for transactions under way: all later ones of that partition wait
-- behind it.
SET SESSION innodb_lock_wait_timeout = 1

-- name: list_foreign
-- Lists partitions that have rows here and are not hosted here: copies, or the remains of a move.
SELECT partition_no FROM (
    SELECT DISTINCT partition_no FROM task
    UNION SELECT DISTINCT partition_no FROM registry
    UNION SELECT DISTINCT partition_no FROM moved
    UNION SELECT DISTINCT partition_no FROM body
    UNION SELECT DISTINCT partition_no FROM lookup
) AS found
WHERE partition_no NOT IN (SELECT partition_no FROM hosted WHERE state IN (1, 2))
ORDER BY partition_no

-- name: take_over
-- Takes over a partition at its old place for a new mover: the earlier mover may do nothing here any more, and what
-- it closed is open again.
-- parameters: 1 term, 2 partition, 3 term.
UPDATE hosted SET state = 1, term = ? WHERE partition_no = ? AND state IN (1, 2) AND term < ?

-- name: take_over_copy
-- Takes over an arriving partition for a new mover that deletes copies.
-- parameters: 1 term, 2 partition, 3 term.
UPDATE hosted SET term = ? WHERE partition_no = ? AND state = 3 AND term < ?

-- name: take_over_remains
-- Takes over a partition that left for a new mover that deletes its remains.
-- parameters: 1 term, 2 partition, 3 term.
UPDATE hosted SET term = ? WHERE partition_no = ? AND state = 4 AND term < ?

-- name: set_state
-- Sets the next state of a partition that is locked.
-- parameters: 1 state, 2 partition.
UPDATE hosted SET state = ? WHERE partition_no = ?
