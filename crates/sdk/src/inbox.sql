-- Writes a task into the inbox, in the caller's transaction (inbox.rs); {table} is its name.
INSERT INTO `{table}` (namespace, queue, kind, `key`, task_version, name, priority, execute_at_ms, delay_ms, payload,
    payload_bytes, max_attempts, retry, timeout_ms, deadline_ms, labels, concurrency_key, handler_versions, traceparent)
VALUES (COALESCE(?, 'default'), ?, ?, ?, COALESCE(?, 0), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
