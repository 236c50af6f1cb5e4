#!lua
-- define.lua keeps the definition of a queue, unless there are too many others.
--
-- KEYS[1] queues  hash  definitions by the queue's name
--
-- ARGV[1] queue       string  its name
-- ARGV[2] definition  string  JSON
-- ARGV[3] max         int     definitions at most, this one included; one that is there is replaced in any case
--
-- Returns {"CREATED"}, {"OK"} if there was a definition, or {"FULL"} if nothing was changed.
-- Safe to run twice: yes, but the second run is OK if the first was CREATED.
local queues_key = KEYS[1]
local queue, definition, max = ARGV[1], ARGV[2], tonumber(ARGV[3])

if redis.call('HEXISTS', queues_key, queue) == 0 and redis.call('HLEN', queues_key) >= max then
  return {'FULL'}
end
if redis.call('HSET', queues_key, queue, definition) == 1 then
  return {'CREATED'}
end
return {'OK'}
