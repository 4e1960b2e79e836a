-- Keeps what a handler said; no move. Of more than 16,384 bytes the oldest lines go. The caller has found the lease held
-- in the same transaction. ?1 id, ?2 fence, ?3 new lines (whole lines of JSON, at most 16,384 bytes).
UPDATE task SET log = CASE
    WHEN octet_length(coalesce(log, '') || ?3) <= 16384 THEN coalesce(log, '') || ?3
    ELSE CAST(substr(
        substr(CAST(coalesce(log, '') || ?3 AS BLOB), -16385),
        instr(substr(CAST(coalesce(log, '') || ?3 AS BLOB), -16385), X'0A') + 1
    ) AS TEXT)
END
WHERE id = ?1 AND fence = ?2 AND state IN (4, 5)
