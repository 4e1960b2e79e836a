#!lua
-- Puts entries into `due`, each unless the same id is there with the same or a newer fence.
-- Redis refuses the whole script, before its first line, when memory is short.
-- KEYS     1 due (ZSET, id by due_at in ms)  2 body (HASH, id to body)
-- ARGV     for each entry, each id once: id (8 bytes), due_at (ms), body (its fence in bytes 2 to 9)
-- Returns  how many were put in
local CHUNK = 300

local function older(body, other)
  local high, low = struct.unpack('>I4I4', body, 2)
  local other_high, other_low = struct.unpack('>I4I4', other, 2)
  return high < other_high or (high == other_high and low < other_low)
end

local put = 0
for first = 1, #ARGV, 3 * CHUNK do
  local ids, due, bodies = {}, {}, {}
  for i = first, math.min(first + 3 * CHUNK - 1, #ARGV), 3 do
    ids[#ids + 1] = ARGV[i]
  end
  local known = redis.call('HMGET', KEYS[2], unpack(ids))
  for n, id in ipairs(ids) do
    local due_at, body, standing = ARGV[first + 3 * n - 2], ARGV[first + 3 * n - 1], known[n]
    if not standing or older(standing, body) then
      due[#due + 1], due[#due + 2] = due_at, id
      bodies[#bodies + 1], bodies[#bodies + 2] = id, body
    end
  end
  if #due > 0 then
    redis.call('ZADD', KEYS[1], unpack(due))
    redis.call('HSET', KEYS[2], unpack(bodies))
    put = put + #due / 2
  end
end
return put
