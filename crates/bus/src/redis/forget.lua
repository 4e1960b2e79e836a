-- Forgets consumers that hold nothing and have not been seen for long: each start of an executor makes a new one.
-- KEYS[1]  the stream
-- ARGV[1]  the consumer group
-- ARGV[2]  longest silence of a consumer that is kept, in milliseconds
-- Returns how many were forgotten.
local forgotten = 0
for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local it = {}
  for at = 1, #consumer, 2 do it[consumer[at]] = consumer[at + 1] end
  if it.pending == 0 and it.idle > tonumber(ARGV[2]) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], it.name)
    forgotten = forgotten + 1
  end
end
return forgotten
