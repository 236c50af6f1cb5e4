#!lua flags=allow-oom
-- campaign.lua takes the direction of a queue in which there is something to do. It may run where Redis is out of memory.
-- uses: time.decimal time.time
--
-- KEYS[1] director  string  the lease of whoever directs the queue
-- KEYS[2] expiries  zset    IDs of tickets that wait, by when their lives end, in milliseconds
-- KEYS[3] outbox    stream  assignments on their way to their channels
--
-- ARGV[1] lease   string  who asks
-- ARGV[2] ttl_ms  int     how long from now on
--
-- Returns {"OK", now_us}, {"LEASE"} where another one has it, or {"IDLE"} where nobody has it and the queue has neither
-- tickets nor assignments. Nothing is changed by any but the first.
-- Safe to run twice: yes.
local director_key, expiries_key, outbox_key = KEYS[1], KEYS[2], KEYS[3]
local lease, ttl_ms = ARGV[1], ARGV[2]

local holder = redis.call('GET', director_key)
if holder and holder ~= lease then
  return {'LEASE'}
end
if redis.call('EXISTS', expiries_key) == 0 and redis.call('XLEN', outbox_key) == 0 then
  return {'IDLE'}
end
redis.call('SET', director_key, lease, 'PX', ttl_ms)
local now = time()
return {'OK', decimal(now)}
