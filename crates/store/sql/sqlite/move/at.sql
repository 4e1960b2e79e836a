-- Where a task stands, for the account and the history of the move that follows. ?1 id.
SELECT namespace, queue, state, due_at, execute_at, payload IS NULL FROM task WHERE id = ?1
