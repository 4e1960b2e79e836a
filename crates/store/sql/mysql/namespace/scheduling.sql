-- Namespaces that have schedules.
SELECT DISTINCT namespace FROM schedule ORDER BY namespace
