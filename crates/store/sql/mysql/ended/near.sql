-- As ended/look.sql, for tasks that are few or have few others of their partition between them. Answers id, fence,
-- lease_until (ms). {places} are conditions on places, of numbers only.
SELECT id, fence, lease_until FROM task FORCE INDEX (PRIMARY) WHERE {places} AND state IN (4, 5)
