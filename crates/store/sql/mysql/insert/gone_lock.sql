-- Held by whoever settles rows of a bucket that was dropped, and by whoever takes one back: one of them at a time.
SELECT one FROM gone_to WHERE one = 1 FOR UPDATE
