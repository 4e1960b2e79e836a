-- The lowest and the highest number of an entry; 0 and 0: there is none.
SELECT COALESCE(MIN(id), 0), COALESCE(MAX(id), 0) FROM audit
