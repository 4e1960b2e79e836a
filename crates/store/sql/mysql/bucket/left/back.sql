-- Puts back what came into the bucket between the look and its leaving. There is nobody else at this table.
INSERT INTO task SELECT * FROM task_left;
DELETE FROM task_left
