-- Everything in it is settled.
TRUNCATE TABLE task_gone
