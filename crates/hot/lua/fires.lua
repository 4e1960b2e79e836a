#!lua flags=no-writes
-- Which of these fire with exactly this fence. Moves nothing.
-- KEYS     1 firing (ZSET, id by fired_at in ms)  2 body (HASH, id to body)
-- ARGV     for each: id (8 bytes), fence (8 bytes)
-- Returns  a string with one character for each, in order: 1 it does, 0 it does not
local CHUNK = 500

local said = {}
for first = 1, #ARGV, 2 * CHUNK do
  local ids = {}
  for i = first, math.min(first + 2 * CHUNK - 1, #ARGV), 2 do
    ids[#ids + 1] = ARGV[i]
  end
  local fired_at = redis.call('ZMSCORE', KEYS[1], unpack(ids))
  local bodies = redis.call('HMGET', KEYS[2], unpack(ids))
  for n = 1, #ids do
    local fires = fired_at[n] and bodies[n] and string.sub(bodies[n], 2, 9) == ARGV[first + 2 * n - 1]
    said[#said + 1] = fires and '1' or '0'
  end
end
return table.concat(said)
