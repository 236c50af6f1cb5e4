#!lua flags=allow-oom
-- campaign.lua assigns the lease of a queue's director to a token, if there is something to do in the queue. It may run
-- when Redis is out of memory.
--
-- KEYS[1] director   string  fence, end, and token of the queue's director
-- KEYS[2] expiries   zset    IDs of waiting tickets, by the ends of their lives, in milliseconds
-- KEYS[3] outbox     stream  assignments to be published to their channels
-- KEYS[4] changes    stream  tickets that were created or cancelled
-- KEYS[5] backfills  zset    IDs of backfills, by the ends of their lives, in milliseconds
--
-- ARGV[1] token   string  token of the caller
-- ARGV[2] ttl_ms  int     how long from now on
--
-- Returns {"OK", fence, until_ms}, {"HELD", left_ms} if another token holds the lease, or {"IDLE"} if no token does and
-- the queue has neither tickets nor backfills nor assignments. Nothing is changed by any but the first.
-- Safe to run twice: yes, while the token holds the lease it gets the same fence.
local director_key, expiries_key, outbox_key, changes_key, backfills_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token, ttl_ms = ARGV[1], tonumber(ARGV[2])

local now_us, now_ms = time.now()
local fence, until_ms, current = lease.read(director_key)
if until_ms <= now_ms then
  if redis.call('EXISTS', expiries_key, backfills_key) == 0 and redis.call('XLEN', outbox_key) == 0 then
    return {'IDLE'}
  end
  fence = math.max(fence + 1, now_us)
  acl.require(changes_key, 'XSETID')
  -- From a point that is ahead of Redis's time the entries of the stream are numbered without gaps, so that the
  -- director notices if a notification is missing.
  if redis.call('EXISTS', changes_key) == 1 then
    -- It fails if an earlier fence was higher, which is as good.
    redis.pcall('XSETID', changes_key, time.decimal(fence) .. '-0')
  end
elseif current ~= token then
  return {'HELD', until_ms - now_ms}
end
lease.write(director_key, fence, now_ms + ttl_ms, token, now_ms)
return {'OK', time.decimal(fence), now_ms + ttl_ms}
