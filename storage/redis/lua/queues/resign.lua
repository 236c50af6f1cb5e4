#!lua flags=allow-oom
-- resign.lua ends a lease, if it is still held, and tells those who would direct the queue. It may run where Redis is
-- out of memory.
--
-- KEYS[1] director  string  the lease of whoever directs the queue
--
-- ARGV[1] lease   string  who resigns
-- ARGV[2] nudges  string  sharded pub/sub channel of the queue
--
-- Returns {"OK"}.
-- Safe to run twice: yes.
local director_key = KEYS[1]
local lease, nudges = ARGV[1], ARGV[2]

if redis.call('GET', director_key) == lease then
  redis.call('DEL', director_key)
  redis.call('SPUBLISH', nudges, 'free')
end
return {'OK'}
