#!lua flags=no-writes
-- Which of these stand in a queue's ready set, in order or parked, with exactly this fence. Moves nothing.
-- KEYS     1 order (ZSET, id and task id in 8 bytes each, by level and due_at)
--          2 tasks (HASH, task id to the records of its versions, one after the other)
--          3 where (HASH, id and task id to the place of what is parked)
-- ARGV     for each: task id (8 bytes), id (8 bytes), fence (8 bytes)
--          record: length of what follows (2 bytes), format, id (8 bytes), fence (8), version (8), the rest
-- Returns  a string with one character for each, in order: 1 it does, 0 it does not
local function has(records, id, fence)
  local at = 1
  while at <= #records do
    local last = at + 1 + struct.unpack('>I2', records, at)
    if string.sub(records, at + 3, at + 10) == id and string.sub(records, at + 11, at + 18) == fence then
      return true
    end
    at = last + 1
  end
  return false
end

local said = {}
for i = 1, #ARGV, 3 do
  local task, id = ARGV[i], ARGV[i + 1]
  local records = redis.call('HGET', KEYS[2], task)
  local stands = records and has(records, id, ARGV[i + 2])
    and (redis.call('ZSCORE', KEYS[1], id .. task) or redis.call('HEXISTS', KEYS[3], id .. task) == 1)
  said[#said + 1] = stands and '1' or '0'
end
return table.concat(said)
