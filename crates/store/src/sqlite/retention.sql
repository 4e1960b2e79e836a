-- Deleting what has been kept long enough, and archiving it before.

-- name: delete_archived
-- Deletes an archived task, if it has not changed since; answers its queue, state and partition, for the account.
-- parameters: ?1 id, ?2 fence, ?3 now (ms).
DELETE FROM task WHERE id = ?1 AND fence = ?2 AND keep_until <= ?3 AND state IN (9, 10, 11)
RETURNING namespace, queue, state, partition

-- name: list_whole_expired_at
-- Lists the rest of the whole tasks whose retention ended at one instant, as `list_whole_expired`. A statement of its
-- own, because a condition on (keep_until, id) would not be a range of the index.
-- parameters: ?1 the instant (ms), ?2 after this id, ?3 limit.
SELECT * FROM whole_task WHERE keep_until = ?1 AND id > ?2 AND state IN (9, 10, 11) ORDER BY id LIMIT ?3

-- name: list_whole_expired
-- Lists whole tasks whose retention is over, the longest over first.
-- parameters: ?1 over after (ms, exclusive), ?2 now (ms), ?3 limit.
SELECT * FROM whole_task WHERE keep_until > ?1 AND keep_until <= ?2 AND state IN (9, 10, 11)
ORDER BY keep_until, id LIMIT ?3

-- name: find_waiting_since
-- Finds since when (ms) the retention of the nth task that is in no archive yet is over, the longest over first; no
-- row: there are no more than n.
-- parameters: ?1 now (ms), ?2 n, from 0.
SELECT keep_until FROM task WHERE keep_until <= ?1 AND state IN (9, 10, 11) ORDER BY keep_until LIMIT 1 OFFSET ?2

-- name: delete_finished
-- Deletes a finished task; never a success, which becomes stopped first.
-- parameters: ?1 id.
DELETE FROM task WHERE id = ?1 AND state IN (9, 10, 11)

-- name: delete_as_read
-- Deletes a finished task on request, if it has not changed since it was read.
-- parameters: ?1 id, ?2 fence, ?3 its state: one of 8, 9, 10 and 11.
DELETE FROM task WHERE id = ?1 AND fence = ?2 AND state = ?3 AND state IN (8, 9, 10, 11) RETURNING namespace, queue

-- name: list_expired
-- Lists finished tasks whose retention is over, the longest over first.
-- parameters: ?1 now (ms), ?2 limit.
SELECT id, namespace, queue, state, partition FROM task WHERE keep_until <= ?1 ORDER BY keep_until LIMIT ?2

-- name: delete_expired_replies
-- Deletes answers that have expired.
-- parameters: ?1 now (ms), ?2 limit.
DELETE FROM reply WHERE (namespace, key) IN (
    SELECT namespace, key FROM reply WHERE keep_until <= ?1 ORDER BY keep_until LIMIT ?2
)

-- name: list_expired_successes
-- Lists successes whose retention is over, the longest over first.
-- parameters: ?1 over since (ms, inclusive), ?2 now (ms), ?3 limit.
SELECT id, namespace, queue, state, partition FROM task WHERE keep_until >= ?1 AND keep_until <= ?2 AND state = 8
ORDER BY keep_until LIMIT ?3
