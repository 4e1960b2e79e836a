-- How many databases the cluster has, and which placement stands. In the catalog.
SELECT name, value FROM meta WHERE name IN ('shards', 'placement')
