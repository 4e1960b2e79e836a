-- Signs of life, or farewells. What a body does not say stays; an older sign than the last changes nothing. What is
-- assigned first is what the rest compares with, so `seen_at` comes last.
-- 1 the signs (JSON: [namespace, name, body (JSON text), seen_at (ms), alive_until (ms), gone (0, or 2: a farewell)]).
INSERT INTO executor (namespace, name, body, wish, gone, first_seen_at, seen_at, alive_until)
SELECT signs.namespace, signs.name, signs.body, 0, signs.gone, signs.seen_at, signs.seen_at, signs.alive_until
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    namespace VARCHAR(128) CHARACTER SET ascii PATH '$[0]', name VARCHAR(191) CHARACTER SET utf8mb4 PATH '$[1]',
    body LONGTEXT CHARACTER SET utf8mb4 PATH '$[2]', seen_at BIGINT PATH '$[3]', alive_until BIGINT PATH '$[4]',
    gone INT PATH '$[5]'
)) AS signs
ON DUPLICATE KEY UPDATE
    executor.body = IF(VALUES(seen_at) > executor.seen_at,
        JSON_MERGE_PATCH(executor.body, VALUES(body)), executor.body),
    executor.wish = IF(VALUES(seen_at) > executor.seen_at AND VALUES(gone) = 2, 0, executor.wish),
    executor.alive_until = IF(VALUES(seen_at) > executor.seen_at,
        IF(VALUES(gone) = 2, VALUES(alive_until), GREATEST(executor.alive_until, VALUES(alive_until))),
        executor.alive_until),
    executor.gone = IF(VALUES(seen_at) > executor.seen_at, VALUES(gone), executor.gone),
    executor.seen_at = GREATEST(executor.seen_at, VALUES(seen_at))
