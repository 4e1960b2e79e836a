-- The running account, sorted.
SELECT namespace, queue, state, tasks FROM books WHERE tasks <> 0 ORDER BY namespace, queue, state
