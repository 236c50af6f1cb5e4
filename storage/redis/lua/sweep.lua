#!lua flags=allow-oom
-- sweep.lua takes tickets whose life has ended out of their queue. It may run where Redis is out of memory.
-- include: time.lua rights.lua leave.lua
--
-- KEYS[1] waiting   zset  IDs of tickets that wait, by when they were made, in microseconds
-- KEYS[2] expiries  zset  the same IDs, by when their lives end, in milliseconds
-- KEYS[3] proposed  zset  IDs of tickets that are held, by until when, in milliseconds
-- KEYS[4] claims    hash  the tokens that hold them
-- KEYS[5] stats     hash  counts
--
-- ARGV[1] limit  int  tickets at most
--
-- Returns {"OK", {id, …}}.
-- Safe to run twice: yes, the second run takes what the first has left.
local waiting_key, expiries_key, proposed_key, claims_key, stats_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local limit = tonumber(ARGV[1])

local _, now_ms = time()
local ids = redis.call('ZRANGE', expiries_key, '-inf', decimal(now_ms), 'BYSCORE', 'LIMIT', 0, limit)
if #ids > 0 then
  demand(stats_key, 'HDEL', 'HINCRBY', 'PEXPIREAT')
  leave({waiting = waiting_key, expiries = expiries_key, proposed = proposed_key, claims = claims_key}, ids)
  redis.call('HINCRBY', stats_key, 'expired', #ids)
  prolong(now_ms, DAY_MS, stats_key)
end
return {'OK', ids}
