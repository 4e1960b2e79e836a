-- The lowest and the highest number of an entry; 0 and 0: there is none.
SELECT coalesce((SELECT min(id) FROM audit), 0), coalesce((SELECT max(id) FROM audit), 0)
