#!lua flags=allow-oom
-- Entries leave their queue's ready set, unless their fence there is newer.
-- KEYS     1 order (ZSET, id and task id in 8 bytes each, by level and due_at)
--          2 tasks (HASH, task id to the records of its versions, one after the other)
--          3 parked (ZSET without scores: lane, score in 8 bytes, id, task id)  4 where (HASH, id and task id to that)
-- ARGV     for each: task id (8 bytes), id (8 bytes), fence (8 bytes, in the order of their numbers)
--          record: length of what follows (2 bytes), format, id (8 bytes), fence (8), version (8), the rest
-- Returns  how many left
local function newer(record, fence)
  local high, low = struct.unpack('>I4I4', record, 12)
  local other_high, other_low = struct.unpack('>I4I4', fence)
  return high > other_high or (high == other_high and low > other_low)
end

local function without(records, id, fence)
  local others, at = '', 1
  while at <= #records do
    local last = at + 1 + struct.unpack('>I2', records, at)
    local record = string.sub(records, at, last)
    if string.sub(record, 4, 11) ~= id or newer(record, fence) then
      others = others .. record
    end
    at = last + 1
  end
  return others
end

local count = 0
for i = 1, #ARGV, 3 do
  local task, id = ARGV[i], ARGV[i + 1]
  local records = redis.call('HGET', KEYS[2], task)
  local others = records and without(records, id, ARGV[i + 2])
  if records and #others < #records then
    if redis.call('ZREM', KEYS[1], id .. task) == 0 then
      local place = redis.call('HGET', KEYS[4], id .. task)
      if place then
        redis.call('ZREM', KEYS[3], place)
        redis.call('HDEL', KEYS[4], id .. task)
      end
    end
    if others == '' then
      redis.call('HDEL', KEYS[2], task)
    else
      redis.call('HSET', KEYS[2], task, others)
    end
    count = count + 1
  end
end
return count
