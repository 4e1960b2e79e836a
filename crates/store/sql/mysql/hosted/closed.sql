-- The partitions that are here, held until the end of the transaction: none is closed meanwhile. One in state 2 is about
-- to leave: then nobody settles accounts.
SELECT state FROM hosted WHERE state IN (1, 2) LOCK IN SHARE MODE
