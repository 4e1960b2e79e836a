#!lua flags=allow-oom
-- Pops what is due at or before an instant, the earliest first. From then on it is the caller's.
-- KEYS     1 due (ZSET, id by due_at in ms)  2 body (HASH, id to body)  3 term (the newest that has drained here)
-- ARGV     1 term (8 bytes, in the order of their numbers)  2 until (ms)  3 limit (entries, at most 1000)
-- Returns  for each: id, body; nothing to a term that is older than one that has been seen
local CHUNK = 500

local function older(term, other)
  local high, low = struct.unpack('>I4I4', term)
  local other_high, other_low = struct.unpack('>I4I4', other)
  return high < other_high or (high == other_high and low < other_low)
end

local newest = redis.call('GET', KEYS[3])
if newest and older(ARGV[1], newest) then
  return {}
end
if newest ~= ARGV[1] then
  redis.call('SET', KEYS[3], ARGV[1])
end
local count = math.min(redis.call('ZCOUNT', KEYS[1], '-inf', ARGV[2]), tonumber(ARGV[3]))
if count == 0 then
  return {}
end
local popped, drained = redis.call('ZPOPMIN', KEYS[1], count), {}
for first = 1, #popped, 2 * CHUNK do
  local ids = {}
  for i = first, math.min(first + 2 * CHUNK - 1, #popped), 2 do
    ids[#ids + 1] = popped[i]
  end
  for n, body in ipairs(redis.call('HMGET', KEYS[2], unpack(ids))) do
    if body then
      drained[#drained + 1], drained[#drained + 2] = ids[n], body
    end
  end
  redis.call('HDEL', KEYS[2], unpack(ids))
end
return drained
