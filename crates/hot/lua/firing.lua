#!lua flags=no-writes
-- Entries that fired before `before` and that no hand-over has settled, the oldest first, without the first `skip`.
-- Moves nothing.
-- KEYS     1 firing (ZSET, id by fired_at in ms)  2 body (HASH, id to body)
-- ARGV     1 before (ms, exclusive)  2 limit (entries)  3 skip (entries)
-- Returns  for each: id, fired_at (ms), body
local CHUNK = 500

local firing = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(' .. ARGV[1], 'WITHSCORES', 'LIMIT', ARGV[3], ARGV[2])
local found = {}
for first = 1, #firing, 2 * CHUNK do
  local ids = {}
  for i = first, math.min(first + 2 * CHUNK - 1, #firing), 2 do
    ids[#ids + 1] = firing[i]
  end
  for n, body in ipairs(redis.call('HMGET', KEYS[2], unpack(ids))) do
    if body then
      found[#found + 1] = ids[n]
      found[#found + 1] = firing[first + 2 * n - 1]
      found[#found + 1] = body
    end
  end
end
return found
