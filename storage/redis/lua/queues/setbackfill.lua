#!lua
-- setbackfill.lua replaces the content of a backfill, but not its persistent field, raises its generation, and releases
-- its associated tickets.
--
-- KEYS[1] backfills  zset    IDs of backfills, by the ends of their lives, in milliseconds
-- KEYS[2] backfill   hash    the backfill
-- KEYS[3] proposed   zset    IDs of claimed tickets, by the ends of the claims, in milliseconds
-- KEYS[4] claims     hash    tokens of the claims, by ID
-- KEYS[5] director   string  the lease of the queue's director
-- KEYS[6] changes    stream  tickets that were created, cancelled or released
--
-- ARGV[1] id       string  the backfill's
-- ARGV[2] attempt  ULID    of this update
-- ARGV[3] content  string  protobuf
-- ARGV[4] nudges   string  sharded pub/sub channel of the queue
-- ARGV[5] feed     string  sharded pub/sub channel of its director
--
-- Returns {"OK", {expires_ms, generation, created_us, content, persistent, tickets}}, {"NO_BACKFILL"}, or
-- {"EXPIRED"}.
-- Safe to run twice: yes, the second run finds its attempt.
local backfills_key, backfill_key, proposed_key, claims_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local director_key, changes_key = KEYS[5], KEYS[6]
local id, attempt, content, nudges, feed = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local _, now_ms = time.now()
local fields, expires = backfill.state(now_ms, backfills_key, backfill_key, id)
if not fields then
  return expires and {'EXPIRED'} or {'NO_BACKFILL'}
elseif fields.attempt == attempt then
  return {'OK', backfill.reply(fields, expires)}
end
acl.require(changes_key, 'HSET', 'PEXPIREAT', 'ZREM', 'HDEL', 'XADD')
local news = changes.begin(now_ms, changes_key, redis.call('GET', director_key), {nudges, feed})
local claimed = claims.held(claims_key, backfill.list(fields.tickets), claims.backfill(id))

fields.generation, fields.content, fields.tickets = time.decimal(fields.generation + 1), content, ''
backfill.change(backfill_key, fields, expires, attempt)
claims.release(now_ms, {proposed = proposed_key, claims = claims_key, changes = changes_key}, claimed, news)
return {'OK', backfill.reply(fields, expires)}
