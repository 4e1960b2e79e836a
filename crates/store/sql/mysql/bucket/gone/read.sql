-- How far task_gone is settled.
SELECT partition_no, due_at, id FROM gone_to WHERE one = 1
