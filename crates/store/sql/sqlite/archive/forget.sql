-- Forgets a task that is archived, if it is as it was then; answers its queue and state, for the account.
-- ?1 id, ?2 fence, ?3 now (ms).
DELETE FROM task WHERE id = ?1 AND fence = ?2 AND keep_until <= ?3 AND state IN (9, 10, 11)
RETURNING namespace, queue, state
