#!lua flags=allow-oom
-- cache_mark.lua records in an index that it is invalidated now. The record is the empty entry, whose score is the time
-- when it can be removed. It may run when Redis is out of memory.
--
-- KEYS[1] ends  zset  entries, by when they end, in microseconds
--
-- Returns {"OK"}.
-- Safe to run twice: yes.
local ends_key = KEYS[1]

local now_us, now_ms = time.now()
redis.call('ZADD', ends_key, time.decimal(now_us + index.MARK_US), '')
if redis.call('PEXPIRETIME', ends_key) < now_ms + index.MARK_US / 1000 then
  redis.call('PEXPIREAT', ends_key, time.decimal(now_ms + index.MARK_US / 1000 + 60000))
end
return {'OK'}
