#!lua flags=allow-oom
-- delbackfill.lua removes backfills, and releases their associated tickets. It may run when Redis is out of memory.
--
-- KEYS[1]  backfills  zset    IDs of backfills, by the ends of their lives, in milliseconds
-- KEYS[2]  proposed   zset    IDs of claimed tickets, by the ends of the claims, in milliseconds
-- KEYS[3]  claims     hash    tokens of the claims, by ID
-- KEYS[4]  director   string  the lease of the queue's director
-- KEYS[5]  changes    stream  tickets that were created, cancelled or released
-- KEYS[6…] each       hash    the backfills
--
-- ARGV[1]  ended   int     1: only those whose lives have ended; 0: all
-- ARGV[2]  nudges  string  sharded pub/sub channel of the queue
-- ARGV[3]  feed    string  sharded pub/sub channel of its director
-- ARGV[4…] ids     string  of the backfills, in the order of their keys
--
-- Returns {"OK", removed}: how many were removed.
-- Safe to run twice: yes, the second run finds none.
local backfills_key, proposed_key, claims_key = KEYS[1], KEYS[2], KEYS[3]
local director_key, changes_key, each = KEYS[4], KEYS[5], batch.from(KEYS, 6)
local ended, nudges, feed, ids = ARGV[1], ARGV[2], ARGV[3], batch.from(ARGV, 4)

local _, now_ms = time.now()
local gone, tokens, tickets = {}, {}, {}
for i, expires in ipairs(batch.replies('ZMSCORE', backfills_key, ids)) do
  if expires and (ended == '0' or tonumber(expires) <= now_ms) then
    gone[#gone + 1] = i
    for _, id in ipairs(backfill.list(redis.call('HGET', each[i], 'tickets') or '')) do
      tickets[#tickets + 1], tokens[#tokens + 1] = id, claims.backfill(ids[i])
    end
  end
end
if #gone == 0 then
  return {'OK', 0}
end
acl.require(changes_key, 'ZREM', 'DEL', 'HDEL', 'XADD', 'PEXPIREAT')
local news = changes.begin(now_ms, changes_key, redis.call('GET', director_key), {nudges, feed})
local at = 0
local mine = claims.held(claims_key, tickets, function(holder)
  at = at + 1
  return holder == tokens[at]
end)
claims.release(now_ms, {proposed = proposed_key, claims = claims_key, changes = changes_key}, mine, news)
for _, i in ipairs(gone) do
  redis.call('DEL', each[i])
  redis.call('ZREM', backfills_key, ids[i])
end
return {'OK', #gone}
