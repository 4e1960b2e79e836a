-- All settings. In the catalog.
SELECT namespace, queue, revision, body, updated_at, updated_by FROM setting ORDER BY namespace, queue
