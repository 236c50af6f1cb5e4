#!lua
-- count_views.lua adds views that a process has counted to the counter of an ID.
--
-- KEYS[1] viewed  string  the counter
-- KEYS[2] flush   string  number of the process's last flush with the ID
--
-- ARGV[1] views    int  to add
-- ARGV[2] number   int  of this flush; later ones have higher numbers
-- ARGV[3] keep_ms  int  how long the number is remembered
-- ARGV[4] most     int  largest value of the counter
--
-- Returns {"OK"}, or {"RANGE"} if the key isn't a counter or would be beyond the largest value, and nothing was
-- changed.
-- Safe to run twice: yes, a flush whose number isn't above the last one was added before.
local viewed_key, flush_key = KEYS[1], KEYS[2]
local views, number, keep_ms, most = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

if tonumber(redis.call('GET', flush_key) or 0) >= tonumber(number) then
  return {'OK'}
end
local found = redis.pcall('GET', viewed_key)
local counted = not found and 0 or type(found) == 'string' and string.match(found, '^%d+$') and tonumber(found)
if not counted or counted + views > most then
  return {'RANGE'}
end
redis.call('SET', viewed_key, time.decimal(counted + views))
redis.call('SET', flush_key, number, 'PX', keep_ms)
return {'OK'}
