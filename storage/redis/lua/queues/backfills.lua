#!lua flags=no-writes
-- backfills.lua reads the IDs of a page of backfills, by the ends of their lives.
--
-- KEYS[1] backfills  zset  IDs of backfills, by the ends of their lives, in milliseconds
--
-- ARGV[1] ended    int  1: those whose lives have ended; 0: the others
-- ARGV[2] from_ms  int  their lives end then or later
-- ARGV[3] limit    int  backfills at most
--
-- Returns {"OK", {id, expires_ms, …}}.
-- Safe to run twice: yes, it only reads.
local backfills_key = KEYS[1]
local ended, from_ms, limit = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local _, now_ms = time.now()
local from, to = time.decimal(math.max(from_ms, now_ms + 1)), '+inf'
if ended == '1' then
  from, to = from_ms, time.decimal(now_ms)
end
return {'OK', redis.call('ZRANGE', backfills_key, from, to, 'BYSCORE', 'LIMIT', 0, limit, 'WITHSCORES')}
