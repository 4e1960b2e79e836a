#!lua flags=allow-oom
-- Whether nothing was lost of partitions since this was first asked in these terms: leaves a note in each, and looks for it. A note of
-- another history of the server says nothing: a restart or a failover may lack what was put in last.
-- KEYS     for each partition: whole (the newest term in which this was asked, and the history in which it was), term (the newest that has drained here)
-- ARGV     for each partition: term (8 bytes, in the order of their numbers)
-- Returns  for each partition: 1: the note was there; 0: it is there from now on; 8 bytes: the newest term seen here, which is
--          newer, and nothing was changed. A list of one text: what went wrong there
local own = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or ''

local function older(term, other)
  local high, low = struct.unpack('>I4I4', term)
  local other_high, other_low = struct.unpack('>I4I4', other)
  return high < other_high or (high == other_high and low < other_low)
end

local function whole(whole_key, term_key, term)
  local note, drained = redis.call('GET', whole_key), redis.call('GET', term_key)
  local newest = note or drained
  if note and drained and older(note, drained) then
    newest = drained
  end
  if newest and older(term, newest) then
    return string.sub(newest, 1, 8)
  end
  if note == term .. own then
    return 1
  end
  redis.call('SET', whole_key, term .. own)
  return 0
end

local answers = {}
for k = 1, #KEYS, 2 do
  local n = (k + 1) / 2
  -- What is broken in one partition says nothing of another.
  local is_done, answer = pcall(whole, KEYS[k], KEYS[k + 1], ARGV[n])
  answers[n] = is_done and answer or { type(answer) == 'table' and answer.err or tostring(answer) }
end
return answers
