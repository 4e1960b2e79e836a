#!lua flags=allow-oom
-- Takes an entry with at most this fence out of `due`.
-- KEYS     1 due (ZSET, id by due_at in ms)  2 body (HASH, id to body)
-- ARGV     1 id (8 bytes)  2 fence (8 bytes, in the order of their numbers)
-- Returns  1: it was there and is gone  0: it is not there, or its fence is newer
local function newer(body, fence)
  local high, low = struct.unpack('>I4I4', body, 2)
  local other_high, other_low = struct.unpack('>I4I4', fence)
  return high > other_high or (high == other_high and low > other_low)
end

local body = redis.call('HGET', KEYS[2], ARGV[1])
if not body or newer(body, ARGV[2]) then
  return 0
end
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
return 1
