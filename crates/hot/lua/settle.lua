#!lua flags=allow-oom
-- The hand-over of these is known: they leave `firing` (and `due`) unless their fence is newer.
-- KEYS     1 due (ZSET, id by due_at in ms)  2 firing (ZSET, id by fired_at in ms)  3 body (HASH, id to body)
-- ARGV     for each: id (8 bytes), fence (8 bytes, in the order of their numbers), "1" to be given its body
-- Returns  for each that has left and whose body was asked for: id, body
local CHUNK = 300

local function newer(body, fence)
  local high, low = struct.unpack('>I4I4', body, 2)
  local other_high, other_low = struct.unpack('>I4I4', fence)
  return high > other_high or (high == other_high and low > other_low)
end

local given = {}
for first = 1, #ARGV, 3 * CHUNK do
  local ids, gone = {}, {}
  for i = first, math.min(first + 3 * CHUNK - 1, #ARGV), 3 do
    ids[#ids + 1] = ARGV[i]
  end
  local bodies = redis.call('HMGET', KEYS[3], unpack(ids))
  for n, id in ipairs(ids) do
    local fence, asked, body = ARGV[first + 3 * n - 2], ARGV[first + 3 * n - 1], bodies[n]
    if body and not newer(body, fence) then
      gone[#gone + 1] = id
      if asked == '1' then
        given[#given + 1], given[#given + 2] = id, body
      end
    end
  end
  if #gone > 0 then
    if redis.call('ZREM', KEYS[2], unpack(gone)) < #gone then
      redis.call('ZREM', KEYS[1], unpack(gone))
    end
    redis.call('HDEL', KEYS[3], unpack(gone))
  end
end
return given
