#!lua flags=allow-oom
-- Brings the first of a lane back into its queue's order, to the place that they had.
-- KEYS     1 order (ZSET, id and task id in 8 bytes each, by level and due_at)
--          2 parked (ZSET without scores: lane, score in 8 bytes, id, task id)  3 where (HASH, id and task id to that)
-- ARGV     1 lane (kind, length of its text in 2 bytes, text)  2 limit (entries, at most 1000)
-- Returns  how many came back
local lane = ARGV[1]
local places = redis.call('ZRANGEBYLEX', KEYS[2], '[' .. lane, '[' .. lane .. '\255', 'LIMIT', 0, ARGV[2])
for _, place in ipairs(places) do
  local high, low = struct.unpack('>I4I4', place, #lane + 1)
  local member = string.sub(place, #lane + 9)
  redis.call('ZADD', KEYS[1], string.format('%.0f', high * 4294967296 + low), member)
  redis.call('ZREM', KEYS[2], place)
  redis.call('HDEL', KEYS[3], member)
end
return #places
