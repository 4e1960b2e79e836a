#!lua flags=allow-oom
-- Pops from the order of a queue's ready set: the level that `domain::chooser` would choose, drawing the same numbers, in
-- it the oldest first; but of two versions of one task the newer first, which goes in the place of the older when that
-- one's turn comes. Where all stand in one level nothing is drawn and nothing is counted.
-- KEYS     1 order (ZSET, id and task id in 8 bytes each, by level and due_at)
--          2 tasks (HASH, task id to the records of its versions, one after the other; of those that are parked too)
-- ARGV     1 limit (entries, at most 1000)  2 seed  3 highest first (percent; -1: by weights)  4 to 8 weights
--          9 share of retries (percent)
-- Returns  for each: its record (length of what follows in 2 bytes, format, id in 8 bytes, fence in 8, version in 8,
--          the rest)
local CHUNK, LEVEL = 500, 281474976710656
local limit = tonumber(ARGV[1])

local drawn = tonumber(ARGV[2]) % 2147483646 + 1
local function below(count)
  drawn = (drawn * 48271) % 2147483647
  return drawn % count
end

-- Of the levels of one lane, in order.
local function among(levels)
  local percent = tonumber(ARGV[3])
  if #levels == 1 then
    return levels[1]
  elseif percent >= 0 then
    if below(100) < percent then
      return levels[1]
    end
    -- Those below share the rest; of two levels nothing further is drawn.
    return #levels == 2 and levels[2] or levels[2 + below(#levels - 1)]
  end
  local whole = 0
  for _, level in ipairs(levels) do
    whole = whole + tonumber(ARGV[4 + level % 5])
  end
  if whole == 0 then
    return levels[1]
  end
  local left = below(whole)
  for _, level in ipairs(levels) do
    local weight = tonumber(ARGV[4 + level % 5])
    if left < weight then
      return level
    end
    left = left - weight
  end
end

-- `waiting`: how many stand in each level, 0 to 9.
local function choose(waiting)
  local new, again = {}, {}
  for level = 0, 9 do
    if waiting[level] > 0 then
      local lane = level < 5 and new or again
      lane[#lane + 1] = level
    end
  end
  if #new == 0 and #again == 0 then
    return nil
  elseif #new == 0 or (#again > 0 and below(100) < tonumber(ARGV[9])) then
    return among(again)
  end
  return among(new)
end

local function bounds(level)
  return string.format('%.0f', (level + 1) * LEVEL), '(' .. string.format('%.0f', (level + 2) * LEVEL)
end

local function pop_by_choice()
  local waiting, wanted, plan, popped = {}, {}, {}, {}
  for level = 0, 9 do
    local from, to = bounds(level)
    waiting[level], wanted[level] = redis.call('ZCOUNT', KEYS[1], from, to), 0
  end
  while #plan < limit do
    local level = choose(waiting)
    if not level then
      break
    end
    plan[#plan + 1], waiting[level], wanted[level] = level, waiting[level] - 1, wanted[level] + 1
  end
  local lines, at = {}, {}
  for level = 0, 9 do
    if wanted[level] > 0 then
      local from, to = bounds(level)
      local line = redis.call('ZRANGEBYSCORE', KEYS[1], from, to, 'WITHSCORES', 'LIMIT', 0, wanted[level])
      lines[level], at[level] = line, 1
      for i = 1, #line, 2 * CHUNK do
        local some = {}
        for k = i, math.min(i + 2 * CHUNK - 1, #line), 2 do
          some[#some + 1] = line[k]
        end
        redis.call('ZREM', KEYS[1], unpack(some))
      end
    end
  end
  for _, level in ipairs(plan) do
    popped[#popped + 1], popped[#popped + 2] = lines[level][at[level]], lines[level][at[level] + 1]
    at[level] = at[level] + 2
  end
  return popped
end

local function level_at(rank)
  local it = redis.call('ZRANGE', KEYS[1], rank, rank, 'WITHSCORES')
  return it[2] and math.floor(tonumber(it[2]) / LEVEL)
end

local is_plain = level_at(0) == level_at(-1)
local popped = is_plain and redis.call('ZPOPMIN', KEYS[1], limit) or pop_by_choice()

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

local members, tasks, records, is_popped = {}, {}, {}, {}

-- Of those that stand in the order: what is parked is passed over.
local function remove_newest(list, task)
  local newest
  for n = 1, #list do
    local member = string.sub(list[n], 4, 11) .. task
    if (not newest or is_newer_version(list[n], list[newest]))
      and (is_popped[member] or redis.call('ZSCORE', KEYS[1], member)) then
      newest = n
    end
  end
  return newest and table.remove(list, newest)
end

for i = 1, #popped, 2 do
  members[#members + 1], is_popped[popped[i]] = popped[i], true
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
    while not gone[member] and #admitted < limit do
      local newest = remove_newest(left[task], task)
      local newest_member = newest and string.sub(newest, 4, 11) .. task
      if newest then
        admitted[#admitted + 1], gone[newest_member] = newest, true
        redis.call('ZREM', KEYS[1], newest_member)
      else
        gone[member] = true
      end
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
