#!lua flags=allow-oom
-- Pops what is due from `due` into `firing`, the earliest first. What it pops is what fires.
-- KEYS     1 due (ZSET, id by due_at in ms)  2 firing (ZSET, id by fired_at in ms)  3 body (HASH, id to body)
--          4 term (the newest that has taken here)
-- ARGV     1 term (8 bytes, in the order of their numbers)  2 now (ms)  3 limit (entries, at most 1000); after them, of what
--          does not fire although it is popped, because its hand-over is known: id (8 bytes), fence (8 bytes)
-- Returns  for each: id, body; nothing to whoever comes with an older term than has been seen
local CHUNK = 400

local function older(term, other)
  local high, low = struct.unpack('>I4I4', term)
  local other_high, other_low = struct.unpack('>I4I4', other)
  return high < other_high or (high == other_high and low < other_low)
end

local newest = redis.call('GET', KEYS[4])
if newest and older(ARGV[1], newest) then
  return {}
end
if newest ~= ARGV[1] then
  redis.call('SET', KEYS[4], ARGV[1])
end
local ids, taken = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[2], 'LIMIT', 0, ARGV[3]), {}
if #ids == 0 then
  return taken
end
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, #ids - 1)
local settled = {}
for i = 4, #ARGV, 2 do
  settled[ARGV[i]] = ARGV[i + 1]
end
for i = 1, #ids, CHUNK do
  local bodies = redis.call('HMGET', KEYS[3], unpack(ids, i, math.min(i + CHUNK - 1, #ids)))
  local firing, gone = {}, {}
  for n, body in ipairs(bodies) do
    if body then
      local id = ids[i + n - 1]
      taken[#taken + 1], taken[#taken + 2] = id, body
      if settled[id] and string.sub(body, 2, 9) == settled[id] then
        gone[#gone + 1] = id
      else
        firing[#firing + 1], firing[#firing + 2] = ARGV[2], id
      end
    end
  end
  if #firing > 0 then
    redis.call('ZADD', KEYS[2], unpack(firing))
  end
  if #gone > 0 then
    redis.call('HDEL', KEYS[3], unpack(gone))
  end
end
return taken
