-- One whole task. ?1 id.
SELECT * FROM whole_task WHERE id = ?1
