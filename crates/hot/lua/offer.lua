#!lua flags=allow-oom
-- Puts entries into a queue's ready set. An id stands there once, with its newest fence; what is parked with it stays
-- parked. A record lies under its task, so that a second version meets the first there; without one, none of it costs
-- anything.
-- KEYS     1 order (ZSET, id and task id in 8 bytes each, by level and due_at)
--          2 tasks (HASH, task id to the records of its versions, one after the other)
--          3 parked (ZSET without scores: lane, score in 8 bytes, id, task id)  4 where (HASH, id and task id to that)
-- ARGV     for each: score, task id (8 bytes), record
--          record: length of what follows (2 bytes), format, id (8 bytes), fence (8), version (8), the rest
-- Returns  how many were put in
local CHUNK = 300

local function older(record, other)
  local high, low = struct.unpack('>I4I4', record, 12)
  local other_high, other_low = struct.unpack('>I4I4', other, 12)
  return high < other_high or (high == other_high and low < other_low)
end

-- The records with the new one among them; nothing, if the same id is there with the same or a newer fence.
local function with(records, new)
  local id, others, at = string.sub(new, 4, 11), '', 1
  while at <= #records do
    local last = at + 1 + struct.unpack('>I2', records, at)
    local record = string.sub(records, at, last)
    if string.sub(record, 4, 11) ~= id then
      others = others .. record
    elseif not older(record, new) then
      return nil
    end
    at = last + 1
  end
  return others .. new
end

local put = 0
for first = 1, #ARGV, 3 * CHUNK do
  local tasks, order, fresh = {}, {}, {}
  for i = first, math.min(first + 3 * CHUNK - 1, #ARGV), 3 do
    tasks[#tasks + 1] = ARGV[i + 1]
  end
  local known = redis.call('HMGET', KEYS[2], unpack(tasks))
  for n, task in ipairs(tasks) do
    local score, record = ARGV[first + 3 * n - 3], ARGV[first + 3 * n - 1]
    local standing, records = fresh[task] or known[n], record
    if standing then
      records = with(standing, record)
      local place = records and redis.call('HGET', KEYS[4], string.sub(record, 4, 11) .. task)
      if place then
        redis.call('ZREM', KEYS[3], place)
        redis.call('HDEL', KEYS[4], string.sub(record, 4, 11) .. task)
      end
    end
    if records then
      fresh[task] = records
      order[#order + 1], order[#order + 2] = score, string.sub(record, 4, 11) .. task
    end
  end
  if #order > 0 then
    local records = {}
    for task, it in pairs(fresh) do
      records[#records + 1], records[#records + 2] = task, it
    end
    redis.call('ZADD', KEYS[1], unpack(order))
    redis.call('HSET', KEYS[2], unpack(records))
    put = put + #order / 2
  end
end
return put
