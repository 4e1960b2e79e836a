-- What `punctual doctor` reads and measures, and what a repair checks and changes (doctor.rs, stats.rs, repair.rs).

-- name: count_dangling_entries
-- Counts the registry's entries of one partition that lead to no task: neither at the place of the reference, nor
-- where it has moved, nor in the bucket that is being dropped.
-- parameters: 1 partition.
SELECT COUNT(*) FROM registry
LEFT JOIN task FORCE INDEX (PRIMARY) ON task.partition_no = registry.partition_no AND task.due_at = registry.due_at
    AND task.id = registry.id
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = registry.partition_no AND moved.id = registry.id
LEFT JOIN task elsewhere FORCE INDEX (PRIMARY)
    ON elsewhere.partition_no = moved.partition_no AND elsewhere.due_at = moved.due_at
    AND elsewhere.id = moved.id
LEFT JOIN task_gone FORCE INDEX (PRIMARY) ON task_gone.partition_no = registry.partition_no
    AND task_gone.due_at = COALESCE(moved.due_at, registry.due_at) AND task_gone.id = registry.id
WHERE registry.partition_no = ? AND task.id IS NULL AND elsewhere.id IS NULL AND task_gone.id IS NULL

-- name: count_dangling_places
-- Counts the moved places of one partition whose task the registry does not know.
-- parameters: 1 partition.
SELECT COUNT(*) FROM moved
LEFT JOIN registry ON registry.id = moved.id
WHERE moved.partition_no = ? AND registry.id IS NULL

-- name: commit_probe
-- Updates the row that exists for measuring one commit.
UPDATE meta SET value = value + 1 WHERE name = 'doctor'

-- name: create_probe
-- Creates the row that commits are measured with. Nothing else reads it.
INSERT IGNORE INTO meta (name, value) VALUES ('doctor', 0)

-- name: list_rights
-- Lists the rights of this connection's user on its database, granted there or on all databases, one a row.
SELECT CAST(privilege_type AS CHAR) FROM information_schema.user_privileges
WHERE REPLACE(grantee, '''', '') = CURRENT_USER()
UNION
SELECT CAST(privilege_type AS CHAR) FROM information_schema.schema_privileges
WHERE REPLACE(grantee, '''', '') = CURRENT_USER() AND DATABASE() LIKE table_schema

-- name: count_roles
-- Counts the roles from which the user may have rights that the lists of rights do not show.
SELECT COUNT(*) FROM information_schema.applicable_roles

-- name: read_isolation
-- Reads the isolation of this connection, under the name of MariaDB before 11.1 or of MySQL since 8.0: name, value.
SHOW SESSION VARIABLES WHERE Variable_name IN ('tx_isolation', 'transaction_isolation')

-- name: list_settings
-- Lists the server's version and settings: name, value. The server leaves out names that it does not know.
SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'version_comment', 'log_bin', 'binlog_format', 'time_zone',
    'system_time_zone', 'max_allowed_packet', 'wait_timeout', 'innodb_lock_wait_timeout', 'max_connections', 'datadir',
    'tx_isolation', 'transaction_isolation', 'require_secure_transport')

-- name: read_tls
-- Reads how this connection is encrypted (no cipher: it is not) and until when the server's certificate is valid:
-- name, value.
SHOW SESSION STATUS WHERE Variable_name IN ('Ssl_cipher', 'Ssl_version', 'Ssl_server_not_after')

-- name: correct_accepted
-- Corrects the number of accepted tasks.
-- parameters: 1 how many more (negative: fewer).
INSERT INTO counters (slot, name, value) VALUES (-2, 'accepted', ?)
ON DUPLICATE KEY UPDATE value = value + VALUES(value)

-- name: list_bodies
-- Lists a page of `body` of one partition, in order: id, and 1 if the registry does not know the task.
-- parameters: 1 partition, 2 after this id, 3 limit.
SELECT some.id, CAST(registry.id IS NULL AS SIGNED)
FROM (SELECT partition_no, id FROM body WHERE partition_no = ? AND id > ? ORDER BY id LIMIT ?) AS some
LEFT JOIN registry FORCE INDEX (registry_newest) ON registry.id = some.id AND registry.partition_no = some.partition_no
ORDER BY some.id

-- name: restart_chunks
-- Makes the labels' worker enter all chunks again: engines of an older version enter nothing.
UPDATE meta SET value = (SELECT COALESCE(MAX(registry.id) + 1, 0) FROM registry FORCE INDEX (registry_newest))
WHERE name = 'chunks_below'

-- name: list_entries
-- Lists a page of the registry of one partition, in order: the entry, and 1 if it leads to no task, neither at the
-- place of the reference, nor where it has moved, nor in the bucket that is being dropped. One statement sees one
-- snapshot.
-- parameters: 1 to 9 after this entry (partition, namespace, partition, namespace, task_id, partition, namespace,
-- task_id, task_version; exclusive), 10 limit.
SELECT CAST(entry.namespace AS CHAR), entry.task_id, entry.task_version, entry.id,
    CAST(task.id IS NULL AND elsewhere.id IS NULL AND task_gone.id IS NULL AS SIGNED)
FROM (
    SELECT partition_no, namespace, task_id, task_version, id, due_at FROM registry FORCE INDEX (PRIMARY)
    WHERE (partition_no = ? AND namespace > ?)
        OR (partition_no = ? AND namespace = ? AND task_id > ?)
        OR (partition_no = ? AND namespace = ? AND task_id = ? AND task_version > ?)
    ORDER BY partition_no, namespace, task_id, task_version LIMIT ?
) AS entry
LEFT JOIN task FORCE INDEX (PRIMARY)
    ON task.partition_no = entry.partition_no AND task.due_at = entry.due_at AND task.id = entry.id
LEFT JOIN moved FORCE INDEX (PRIMARY) ON moved.partition_no = entry.partition_no AND moved.id = entry.id
LEFT JOIN task elsewhere FORCE INDEX (PRIMARY)
    ON elsewhere.partition_no = moved.partition_no AND elsewhere.due_at = moved.due_at
    AND elsewhere.id = moved.id
LEFT JOIN task_gone FORCE INDEX (PRIMARY) ON task_gone.partition_no = entry.partition_no
    AND task_gone.due_at = COALESCE(moved.due_at, entry.due_at) AND task_gone.id = entry.id
ORDER BY entry.namespace, entry.task_id, entry.task_version

-- name: restart_labels
-- Makes the labels' worker enter all terms again: engines of an older version enter nothing.
UPDATE indexed_label SET
    begun_id = (SELECT COALESCE(MAX(registry.id), 0) + 1 FROM registry FORCE INDEX (registry_newest)),
    below_id = (SELECT MAX(registry.id) + 1 FROM registry FORCE INDEX (registry_newest))

-- name: list_moved_places
-- Lists a page of `moved` of one partition, in order: id, and 1 if the registry does not know the task.
-- parameters: 1 partition, 2 after this id, 3 limit.
SELECT some.id, CAST(registry.id IS NULL AS SIGNED)
FROM (SELECT partition_no, id FROM moved WHERE partition_no = ? AND id > ? ORDER BY id LIMIT ?) AS some
LEFT JOIN registry FORCE INDEX (registry_newest) ON registry.id = some.id AND registry.partition_no = some.partition_no
ORDER BY some.id

-- name: delete_stray_mark
-- Deletes the mark of a partition whose move is over.
-- parameters: 1 partition.
DELETE FROM hosted WHERE partition_no = ? AND state IN (3, 4)
