-- Leases by their end, in the transaction that grants them. For each row: 1 the earliest end (ms), 2 entries.
INSERT INTO lease_batch (lease_until, entries) VALUES (?, ?)
