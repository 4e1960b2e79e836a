#!lua flags=allow-oom
-- Pops from a queue's ready set: lowest priority number first, then the oldest; but of two versions of one task the
-- newer first, which goes in the place of the older when that one's turn comes.
-- KEYS     1 order (ZSET, id and task id in 8 bytes each, by priority and due_at)
--          2 tasks (HASH, task id to the records of its versions, one after the other)
-- ARGV     1 limit (entries, at most 1000)
-- Returns  for each: its record (length of what follows in 2 bytes, format, id in 8 bytes, fence in 8, version in 8,
--          the rest)
local CHUNK = 500
local limit = tonumber(ARGV[1])

local function is_newer_version(record, other)
  local high, low = struct.unpack('>I4I4', record, 20)
  local other_high, other_low = struct.unpack('>I4I4', other, 20)
  return high > other_high or (high == other_high and low > other_low)
end

local function split(records)
  local list, at = {}, 1
  while at <= #records do
    local last = at + 1 + struct.unpack('>I2', records, at)
    list[#list + 1] = string.sub(records, at, last)
    at = last + 1
  end
  return list
end

local function remove_newest(list)
  local newest = 1
  for n = 2, #list do
    if is_newer_version(list[n], list[newest]) then
      newest = n
    end
  end
  return table.remove(list, newest)
end

local popped, members, tasks, records = redis.call('ZPOPMIN', KEYS[1], limit), {}, {}, {}
for i = 1, #popped, 2 do
  members[#members + 1] = popped[i]
  tasks[#tasks + 1] = string.sub(popped[i], 9, 16)
end
for i = 1, #tasks, CHUNK do
  for _, it in ipairs(redis.call('HMGET', KEYS[2], unpack(tasks, i, math.min(i + CHUNK - 1, #tasks)))) do
    records[#records + 1] = it
  end
end

-- `left`: what stays of the versions of a task of which one has gone. `gone`: members that need not stand any more.
local admitted, emptied, gone, left = {}, {}, {}, {}
for n, member in ipairs(members) do
  local task, standing = tasks[n], records[n]
  if #admitted == limit then
    break
  elseif gone[member] or not standing then
    gone[member] = true
  elseif not left[task] and struct.unpack('>I2', standing) + 2 == #standing then
    admitted[#admitted + 1], emptied[#emptied + 1], gone[member] = standing, task, true
  else
    left[task] = left[task] or split(standing)
    while #left[task] > 0 and not gone[member] and #admitted < limit do
      local newest = remove_newest(left[task])
      local newest_member = string.sub(newest, 4, 11) .. task
      admitted[#admitted + 1], gone[newest_member] = newest, true
      redis.call('ZREM', KEYS[1], newest_member)
    end
    if #left[task] == 0 then
      gone[member] = true
    end
  end
end

for n, member in ipairs(members) do
  if not gone[member] then
    redis.call('ZADD', KEYS[1], popped[2 * n], member)
  end
end
for task, list in pairs(left) do
  if #list > 0 then
    redis.call('HSET', KEYS[2], task, table.concat(list))
  else
    emptied[#emptied + 1] = task
  end
end
for i = 1, #emptied, CHUNK do
  redis.call('HDEL', KEYS[2], unpack(emptied, i, math.min(i + CHUNK - 1, #emptied)))
end
return admitted
