-- How far one look goes: the id of the last of so many entries; none: to the end. 1 term, 2 below this id, 3 entries to skip.
SELECT id FROM lookup FORCE INDEX (PRIMARY) WHERE term = ? AND id < ? ORDER BY term DESC, id DESC LIMIT 1 OFFSET ?
