-- The running account, sorted.
SELECT namespace, queue, state, tasks, bytes FROM books WHERE tasks <> 0 OR bytes <> 0 ORDER BY namespace, queue, state
