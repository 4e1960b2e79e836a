-- It must be empty.
DROP TABLE task_left
