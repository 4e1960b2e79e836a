#!lua flags=allow-oom
-- Writes down queues that may have something ready, so that they can be counted.
-- KEYS     1 queues (SET, "namespace/queue")
-- ARGV     for each: "namespace/queue"
-- Returns  how many were not written down before
local CHUNK = 1000
local fresh = 0
for i = 1, #ARGV, CHUNK do
  fresh = fresh + redis.call('SADD', KEYS[1], unpack(ARGV, i, math.min(i + CHUNK - 1, #ARGV)))
end
return fresh
