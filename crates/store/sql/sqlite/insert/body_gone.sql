-- The long payload of a task that is deleted or has another payload now. ?1 task id.
DELETE FROM body WHERE id = ?1
