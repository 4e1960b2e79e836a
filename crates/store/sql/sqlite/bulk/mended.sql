-- A task that is no failure any more. ?1 bulk, ?2 id of the task.
DELETE FROM bulk_failure WHERE bulk_id = ?1 AND id = ?2
