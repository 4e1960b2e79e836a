-- Ends a connection; what it has not committed is undone, and its locks are free. {connection}: its number.
KILL {connection}
