#!lua flags=allow-oom
-- lease.lua takes or renews the direction of a queue. It may run where Redis is out of memory.
-- uses: time.decimal time.time
--
-- KEYS[1] director  string  the lease of whoever directs the queue
--
-- ARGV[1] lease   string  who asks
-- ARGV[2] ttl_ms  int     how long from now on
--
-- Returns {"OK", now_us}, or {"LEASE"} where another one has it and nothing was changed.
-- Safe to run twice: yes.
local director_key = KEYS[1]
local lease, ttl_ms = ARGV[1], ARGV[2]

local holder = redis.call('GET', director_key)
if holder and holder ~= lease then
  return {'LEASE'}
end
redis.call('SET', director_key, lease, 'PX', ttl_ms)
local now = time()
return {'OK', decimal(now)}
