-- The same account, counted from the rows: reads every task.
SELECT namespace, queue, state, count(*) FROM task GROUP BY namespace, queue, state
ORDER BY namespace, queue, state
