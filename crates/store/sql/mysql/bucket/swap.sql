-- The rows of a bucket leave task all at once, whatever their number. task_gone must be empty.
-- Braces: name.
ALTER TABLE task EXCHANGE PARTITION {name} WITH TABLE task_gone
