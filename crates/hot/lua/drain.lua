#!lua flags=allow-oom
-- Pops what is due at or before an instant, the earliest of each partition first. From then on it is the caller's.
-- KEYS     for each partition: due (ZSET, id by due_at in ms), body (HASH, id to body), term (the newest that has drained here)
-- ARGV     1 until (ms)  2 limit (entries of all partitions together; the first one is never cut short by it)
--          3 limit (entries of one partition, at most 1000)  then for each partition: term (8 bytes, in the order of their numbers)
-- Returns  for each partition: id and body of each entry, in turn; nothing to a term that is older than one that has been seen.
--          0: it was not looked at, because the others have used up the limit. A text: what went wrong there
local CHUNK = 500

local function older(term, other)
  local high, low = struct.unpack('>I4I4', term)
  local other_high, other_low = struct.unpack('>I4I4', other)
  return high < other_high or (high == other_high and low < other_low)
end

local left = tonumber(ARGV[2])

local function drain(due_key, body_key, term_key, term)
  local newest = redis.call('GET', term_key)
  if newest and older(term, newest) then
    return {}
  end
  if newest ~= term then
    redis.call('SET', term_key, term)
  end
  local count = math.min(redis.call('ZCOUNT', due_key, '-inf', ARGV[1]), tonumber(ARGV[3]))
  if count == 0 then
    return {}
  end
  if count > left and left < tonumber(ARGV[2]) then
    left = 0
    return 0
  end
  left = left - count
  local popped, drained = redis.call('ZPOPMIN', due_key, count), {}
  for first = 1, #popped, 2 * CHUNK do
    local ids = {}
    for i = first, math.min(first + 2 * CHUNK - 1, #popped), 2 do
      ids[#ids + 1] = popped[i]
    end
    for n, body in ipairs(redis.call('HMGET', body_key, unpack(ids))) do
      if body then
        drained[#drained + 1], drained[#drained + 2] = ids[n], body
      end
    end
    redis.call('HDEL', body_key, unpack(ids))
  end
  return drained
end

local answers = {}
for k = 1, #KEYS, 3 do
  local n = (k + 2) / 3
  -- What is broken in one partition keeps no other from being drained.
  local is_done, answer = pcall(drain, KEYS[k], KEYS[k + 1], KEYS[k + 2], ARGV[3 + n])
  answers[n] = is_done and answer or (type(answer) == 'table' and answer.err or tostring(answer))
end
return answers
