-- How far task_gone is archived; none: not at all.
SELECT partition_no, due_at, id FROM gone_to WHERE one = 2
