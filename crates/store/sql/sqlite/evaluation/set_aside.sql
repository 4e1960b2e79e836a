-- At what so many engines have died: kind, id, namespace, name, when the last mark was made, and how many. There are few marks at
-- any time. ?1 the engine that asks, ?2 how many, ?3 limit.
SELECT kind, id, MAX(namespace), MAX(name), MAX(begun_at), COUNT(DISTINCT engine) FROM evaluation
WHERE engine <> ?1 GROUP BY kind, id HAVING COUNT(DISTINCT engine) >= ?2 ORDER BY kind, id LIMIT ?3
