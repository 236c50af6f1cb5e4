#!lua flags=allow-oom
-- sweep.lua takes tickets whose life has ended out of their queue, once their players were notified, and lists others.
-- It may run when Redis is out of memory.
--
-- KEYS[1] waiting    zset  IDs of waiting tickets, by creation, in microseconds
-- KEYS[2] expiries   zset  the same IDs, by the ends of their lives, in milliseconds
-- KEYS[3] proposed   zset  IDs of claimed tickets, by the ends of the claims, in milliseconds
-- KEYS[4] claims     hash  tokens of the claims, by ID
-- KEYS[5] stats      hash  counts
-- KEYS[6] listening set   IDs of waiting tickets whose assignments have to be published
--
-- ARGV[1]  limit    int     tickets to list at most
-- ARGV[2…] notified string  IDs of tickets to take out, if their lives have ended
--
-- Returns {"OK", taken, {id, …}}: how many were taken out, and the IDs of tickets whose life has ended and that are in.
-- Safe to run twice: yes, the second run finds nothing to take out.
local waiting_key, expiries_key, proposed_key, claims_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local stats_key, listening_key = KEYS[5], KEYS[6]
local limit, notified = tonumber(ARGV[1]), {unpack(ARGV, 2)}

local _, now_ms = time.now()
local ids = {}
for i, expires in ipairs(#notified > 0 and redis.call('ZMSCORE', expiries_key, unpack(notified)) or {}) do
  if expires and tonumber(expires) <= now_ms then
    ids[#ids + 1] = notified[i]
  end
end
if #ids > 0 then
  acl.require(stats_key, 'SREM', 'HDEL', 'HINCRBY', 'PEXPIREAT')
  local keys = {
    waiting = waiting_key, expiries = expiries_key, listening = listening_key,
    proposed = proposed_key, claims = claims_key,
  }
  queue.remove(keys, ids)
  redis.call('HINCRBY', stats_key, 'expired', #ids)
  time.prolong(now_ms, time.DAY_MS, stats_key)
end
return {'OK', #ids, redis.call('ZRANGE', expiries_key, '-inf', time.decimal(now_ms), 'BYSCORE', 'LIMIT', 0, limit)}
