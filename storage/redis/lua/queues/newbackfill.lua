#!lua
-- newbackfill.lua creates a backfill of generation 1, unless the queue has too many others.
--
-- KEYS[1] backfills  zset    IDs of backfills, by the ends of their lives, in milliseconds
-- KEYS[2] backfill   hash    the backfill
-- KEYS[3] director   string  the lease of the queue's director
--
-- ARGV[1] id          string  the backfill's
-- ARGV[2] ttl_ms      int     its life without an acknowledgement
-- ARGV[3] max         int     backfills at most, this one included
-- ARGV[4] content     string  protobuf
-- ARGV[5] persistent  string  protobuf
-- ARGV[6] nudges      string  sharded pub/sub channel of the queue
--
-- Returns {"OK", {expires_ms, generation, created_us, content, persistent, tickets}}, or {"FULL"}.
-- Safe to run twice: yes, the second run finds the backfill.
local backfills_key, backfill_key, director_key = KEYS[1], KEYS[2], KEYS[3]
local id, ttl_ms, max = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local content, persistent, nudges = ARGV[4], ARGV[5], ARGV[6]

local now, now_ms = time.now()
local fields, expires = backfill.state(now_ms, backfills_key, backfill_key, id)
if fields then
  return {'OK', backfill.reply(fields, expires)}
elseif redis.call('ZCOUNT', backfills_key, '(' .. time.decimal(now_ms), '+inf') >= max then
  return {'FULL'}
end
acl.require(backfill_key, 'HSET', 'PEXPIREAT', 'ZADD')
acl.require_publish(nudges)
expires = time.decimal(now_ms + ttl_ms)
fields = {
  generation = '1', created = time.decimal(now), content = content, persistent = persistent, tickets = '',
}
backfill.change(backfill_key, fields, expires, '')
redis.call('ZADD', backfills_key, expires, id)
time.prolong(now_ms, ttl_ms + time.DAY_MS, backfills_key)
if lease.holder(director_key, now_ms) == '' then
  redis.call('SPUBLISH', nudges, '')
end
return {'OK', backfill.reply(fields, expires)}
