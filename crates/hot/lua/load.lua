#!lua
-- Puts entries into `due` of their partitions, each unless the same id is there with the same or a newer fence.
-- Redis refuses the whole script, before its first line, when memory is short.
-- KEYS     for each partition: due (ZSET, id by due_at in ms), body (HASH, id to body)
-- ARGV     for each partition: how many entries, then for each entry, each id once: id (8 bytes), due_at (ms),
--          body (its fence in bytes 2 to 9)
-- Returns  for each partition: how many were put in. A text: what went wrong there
local CHUNK = 300

local function older(body, other)
  local high, low = struct.unpack('>I4I4', body, 2)
  local other_high, other_low = struct.unpack('>I4I4', other, 2)
  return high < other_high or (high == other_high and low < other_low)
end

-- The entries in ARGV from `begin` to `last`.
local function load(due_key, body_key, begin, last)
  local put = 0
  for first = begin, last, 3 * CHUNK do
    local ids, due, bodies = {}, {}, {}
    for i = first, math.min(first + 3 * CHUNK - 1, last), 3 do
      ids[#ids + 1] = ARGV[i]
    end
    local known = redis.call('HMGET', body_key, unpack(ids))
    for n, id in ipairs(ids) do
      local due_at, body, standing = ARGV[first + 3 * n - 2], ARGV[first + 3 * n - 1], known[n]
      if not standing or older(standing, body) then
        due[#due + 1], due[#due + 2] = due_at, id
        bodies[#bodies + 1], bodies[#bodies + 2] = id, body
      end
    end
    if #due > 0 then
      redis.call('ZADD', due_key, unpack(due))
      redis.call('HSET', body_key, unpack(bodies))
      put = put + #due / 2
    end
  end
  return put
end

local answers, at = {}, 1
for k = 1, #KEYS, 2 do
  local last = at + 3 * tonumber(ARGV[at])
  -- What is broken in one partition keeps nothing from being put into another.
  local is_done, answer = pcall(load, KEYS[k], KEYS[k + 1], at + 1, last)
  answers[#answers + 1] = is_done and answer or (type(answer) == 'table' and answer.err or tostring(answer))
  at = last + 1
end
return answers
