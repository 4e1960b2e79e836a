#!lua flags=allow-oom
-- Puts entries that were taken elsewhere into `firing`, each unless the same id is there with the same or a newer fence,
-- or due with a newer one.
-- KEYS     1 due (ZSET, id by due_at in ms)  2 firing (ZSET, id by fired_at in ms)  3 body (HASH, id to body)
-- ARGV     for each entry, each id once: id (8 bytes), fired_at (ms), body (its fence in bytes 2 to 9)
-- Returns  how many were put in; after it, for each that fired with an older fence until now: id, body
local CHUNK = 300

local function older(body, other)
  local high, low = struct.unpack('>I4I4', body, 2)
  local other_high, other_low = struct.unpack('>I4I4', other, 2)
  return high < other_high or (high == other_high and low < other_low)
end

local put, displaced = 0, {}
for first = 1, #ARGV, 3 * CHUNK do
  local ids, firing, bodies = {}, {}, {}
  for i = first, math.min(first + 3 * CHUNK - 1, #ARGV), 3 do
    ids[#ids + 1] = ARGV[i]
  end
  local known = redis.call('HMGET', KEYS[3], unpack(ids))
  for n, id in ipairs(ids) do
    local fired_at, body, standing = ARGV[first + 3 * n - 2], ARGV[first + 3 * n - 1], known[n]
    local was_due = standing and not older(body, standing) and redis.call('ZREM', KEYS[1], id) == 1
    if not standing or was_due or older(standing, body) then
      firing[#firing + 1], firing[#firing + 2] = fired_at, id
      bodies[#bodies + 1], bodies[#bodies + 2] = id, body
      if standing and not was_due then
        displaced[#displaced + 1], displaced[#displaced + 2] = id, standing
      end
    end
  end
  if #firing > 0 then
    redis.call('ZADD', KEYS[2], unpack(firing))
    redis.call('HSET', KEYS[3], unpack(bodies))
    put = put + #firing / 2
  end
end
return {put, unpack(displaced)}
