-- What a connection is set to besides that opens transactions: the server closes it, and undoes what it has not
-- committed, when nothing was asked on it for 3 s. An idle writer asks something every second. So the rows of an engine
-- that is frozen, or whose host is gone, are free after 3 s on MySQL too, inside a transaction and outside.
SET SESSION wait_timeout = 3
