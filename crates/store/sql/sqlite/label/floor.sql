-- How far one look goes: the id of the last of so many entries; none: to the end. ?1 namespace, ?2 label (key=value), ?3 below
-- this id, ?4 entries to skip.
SELECT id FROM task_label WHERE namespace = ?1 AND label = ?2 AND id < ?3 ORDER BY id DESC LIMIT 1 OFFSET ?4
