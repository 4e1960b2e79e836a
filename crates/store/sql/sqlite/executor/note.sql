-- A sign of life, or a farewell. What the body does not say stays; an older sign than the last changes nothing.
-- ?1 namespace, ?2 name, ?3 body (JSON object), ?4 seen_at (ms), ?5 alive_until (ms), ?6 gone (0, or 2: a farewell).
INSERT INTO executor (namespace, name, body, wish, gone, first_seen_at, seen_at, alive_until)
VALUES (?1, ?2, ?3, 0, ?6, ?4, ?4, ?5)
ON CONFLICT (namespace, name) DO UPDATE SET
    body = json_patch(executor.body, excluded.body),
    wish = CASE excluded.gone WHEN 2 THEN 0 ELSE executor.wish END,
    gone = excluded.gone,
    seen_at = excluded.seen_at,
    alive_until = CASE excluded.gone WHEN 2 THEN excluded.alive_until
        ELSE max(executor.alive_until, excluded.alive_until) END
WHERE excluded.seen_at > executor.seen_at
