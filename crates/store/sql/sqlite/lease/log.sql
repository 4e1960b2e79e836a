-- Keeps what a handler said; no move. Of more than 16,384 bytes the oldest lines go. The caller has found the lease held
-- in the same transaction. ?1 id, ?2 fence, ?3 new lines (whole lines of JSON, at most 16,384 bytes).
UPDATE task SET log = (
    SELECT CASE
        WHEN length(whole) <= 16384 THEN CAST(whole AS TEXT)
        ELSE CAST(substr(substr(whole, -16385), instr(substr(whole, -16385), X'0A') + 1) AS TEXT)
    END
    FROM (SELECT CAST(coalesce(task.log, '') || ?3 AS BLOB) AS whole)
)
WHERE id = ?1 AND fence = ?2 AND state IN (4, 5)
