#!lua flags=allow-oom
-- Says anew when to look at members; who holds nothing is passed over.
-- KEYS     1 until (ZSET, member by when to look at it, ms)
-- ARGV     for each: member (id and fence in 8 bytes each), until (ms)
-- Returns  how many were given
for i = 1, #ARGV, 2 do
  redis.call('ZADD', KEYS[1], 'XX', ARGV[i + 1], ARGV[i])
end
return #ARGV / 2
