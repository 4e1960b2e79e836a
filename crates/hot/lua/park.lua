#!lua flags=allow-oom
-- Puts entries aside, out of a queue's order, into a lane. What stands in the order with the same fence is taken out of
-- it; what is parked already, or stands with a newer fence, stays where it is.
-- KEYS     1 order (ZSET, id and task id in 8 bytes each, by level and due_at)
--          2 tasks (HASH, task id to the records of its versions, one after the other)
--          3 parked (ZSET without scores: lane, score in 8 bytes, id, task id)  4 where (HASH, id and task id to that)
-- ARGV     1 lane (kind, length of its text in 2 bytes, text)  and for each: score, task id (8 bytes), record
--          record: length of what follows (2 bytes), format, id (8 bytes), fence (8), version (8), the rest
-- Returns  how many were parked
local function older(record, other)
  local high, low = struct.unpack('>I4I4', record, 12)
  local other_high, other_low = struct.unpack('>I4I4', other, 12)
  return high < other_high or (high == other_high and low < other_low)
end

-- The record of the same id, and the others.
local function split(records, id)
  local others, found, at = '', nil, 1
  while at <= #records do
    local last = at + 1 + struct.unpack('>I2', records, at)
    local record = string.sub(records, at, last)
    if string.sub(record, 4, 11) == id then
      found = record
    else
      others = others .. record
    end
    at = last + 1
  end
  return found, others
end

local parked = 0
for i = 2, #ARGV, 3 do
  local score, task, record = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local id = string.sub(record, 4, 11)
  local found, others = split(redis.call('HGET', KEYS[2], task) or '', id)
  local member = id .. task
  local standing = redis.call('ZSCORE', KEYS[1], member)
  local is_same = found and not older(found, record)
  if not is_same or (standing and not older(record, found)) then
    if is_same then
      score = standing
    else
      redis.call('HSET', KEYS[2], task, others .. record)
      local was = redis.call('HGET', KEYS[4], member)
      if was then
        redis.call('ZREM', KEYS[3], was)
      end
    end
    local number = tonumber(score)
    local place = ARGV[1] .. struct.pack('>I4I4', math.floor(number / 4294967296), number % 4294967296) .. member
    redis.call('ZREM', KEYS[1], member)
    redis.call('ZADD', KEYS[3], 0, place)
    redis.call('HSET', KEYS[4], member, place)
    parked = parked + 1
  end
end
return parked
