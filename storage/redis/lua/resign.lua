#!lua flags=allow-oom
-- resign.lua ends a lease, if it is still held. It may run where Redis is out of memory.
--
-- KEYS[1] director  string  the lease of whoever directs the queue
--
-- ARGV[1] lease  string  who resigns
--
-- Returns {"OK"}.
-- Safe to run twice: yes.
local director_key = KEYS[1]
local lease = ARGV[1]

if redis.call('GET', director_key) == lease then
  redis.call('DEL', director_key)
end
return {'OK'}
