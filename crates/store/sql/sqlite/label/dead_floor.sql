-- How far one look goes: the id of the last of so many dead; none: to the end. ?1 namespace, ?2 below this id, ?3 dead to skip.
SELECT id FROM task WHERE state = 9 AND namespace = ?1 AND id < ?2 ORDER BY id DESC LIMIT 1 OFFSET ?3
