-- Takes a key under which something stands whose time is over, or the same owner's reservation, which then lasts longer.
-- Not one upsert: after `body = ...`, MariaDB compares a blob with what was just assigned to it.
-- 1 request_hash (as signed), 2 owner (bytes), 3 reserved until (ms), 4 namespace, 5 key (bytes), 6 now (ms), 7 owner (bytes).
UPDATE reply SET request_hash = ?, status = 0, body = ?, keep_until = ?
WHERE namespace = ? AND reply_key = ? AND (keep_until <= ? OR (status = 0 AND body = ?))
