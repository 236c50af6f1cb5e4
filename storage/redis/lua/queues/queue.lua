#!lua flags=no-writes
-- queue.lua describes a queue.
--
-- KEYS[1] waiting    zset    IDs of waiting tickets, by creation, in microseconds
-- KEYS[2] expiries   zset    the same IDs, by the ends of their lives, in milliseconds
-- KEYS[3] proposed   zset    IDs of claimed tickets, by the ends of the claims, in milliseconds
-- KEYS[4] outbox     stream  assignments to be published to their channels
-- KEYS[5] matched    stream  how long the tickets of each match had waited, and its ID
-- KEYS[6] stats      hash    counts
-- KEYS[7] backfills  zset    IDs of backfills, by the ends of their lives, in milliseconds
--
-- ARGV[1] recent  int  matches at most
--
-- Returns {"OK", now_us, alive, held, backfills, outgoing, oldest_us or "", {matched, cancelled, expired, conflicts},
-- {{entry, {"waits", "waited_us …", "match", id}}, …}}, the newest match first.
-- Safe to run twice: yes, it only reads.
local waiting_key, expiries_key, proposed_key = KEYS[1], KEYS[2], KEYS[3]
local outbox_key, matched_key, stats_key, backfills_key = KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local recent = ARGV[1]

local now, now_ms = time.now()
local alive = redis.call('ZCOUNT', expiries_key, '(' .. time.decimal(now_ms), '+inf')
local held = redis.call('ZCOUNT', proposed_key, '(' .. time.decimal(now_ms), '+inf')
local backfills = redis.call('ZCOUNT', backfills_key, '(' .. time.decimal(now_ms), '+inf')
local oldest = redis.call('ZRANGE', waiting_key, 0, 0, 'WITHSCORES')[2] or ''
local counts = redis.call('HMGET', stats_key, 'matched', 'cancelled', 'expired', 'conflicts')
for i = 1, 4 do
  counts[i] = counts[i] or '0'
end
local matches = recent ~= '0' and redis.call('XREVRANGE', matched_key, '+', '-', 'COUNT', recent) or {}
local outgoing = redis.call('XLEN', outbox_key)
return {'OK', time.decimal(now), alive, held, backfills, outgoing, oldest, counts, matches}
