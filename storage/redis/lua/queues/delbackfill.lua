#!lua flags=allow-oom
-- delbackfill.lua removes backfills, and releases their associated tickets. It ends early when these are many: the
-- caller repeats the call with the others. It may run when Redis is out of memory.
--
-- KEYS[1]   backfills      zset    IDs of backfills, by the ends of their lives, in milliseconds
-- KEYS[2]   proposed       zset    IDs of claimed tickets, by the ends of the claims, in milliseconds
-- KEYS[3]   claims         hash    tokens of the claims, by ID
-- KEYS[4]   director       string  the lease of the queue's director
-- KEYS[5]   changes        stream  tickets that were created, cancelled or released
-- KEYS[6…]  backfill_keys  hash    the backfills
--
-- ARGV[1]  which   string  "ended": only those whose lives have ended; "new": only those of generation 1; or "all"
-- ARGV[2]  nudges  string  sharded pub/sub channel of the queue
-- ARGV[3]  feed    string  sharded pub/sub channel of its director
-- ARGV[4…] ids     string  of the backfills, in the order of their keys
--
-- Returns {"OK", removed, seen}: how many were removed, of how many.
-- Safe to run twice: yes, the second run finds none.
local backfills_key, proposed_key, claims_key = KEYS[1], KEYS[2], KEYS[3]
local director_key, changes_key, backfill_keys = KEYS[4], KEYS[5], batch.from(KEYS, 6)
local which, nudges, feed, ids = ARGV[1], ARGV[2], ARGV[3], batch.from(ARGV, 4)

local _, now_ms = time.now()
local removed, tokens, tickets, seen = {}, {}, {}, 0
for i, expires in ipairs(batch.replies('ZMSCORE', backfills_key, ids)) do
  local fields = expires and redis.call('HMGET', backfill_keys[i], 'generation', 'tickets')
  local wanted = which == 'all' or which == 'ended' and expires and tonumber(expires) <= now_ms
    or which == 'new' and fields and fields[1] == '1'
  seen = i
  if expires and wanted then
    removed[#removed + 1] = i
    for _, id in ipairs(backfill.list(fields[2] or '')) do
      tickets[#tickets + 1], tokens[#tokens + 1] = id, claims.backfill(ids[i])
    end
  end
  if #tickets >= batch.SIZE then
    break
  end
end
if #removed == 0 then
  return {'OK', 0, seen}
end
acl.require(changes_key, 'ZREM', 'DEL', 'HDEL', 'XADD', 'PEXPIREAT')
local news = changes.begin(now_ms, changes_key, redis.call('GET', director_key), {nudges, feed})
local at = 0
local claimed = claims.select(claims_key, tickets, function(holder)
  at = at + 1
  return claims.is(holder, tokens[at])
end)
claims.release(now_ms, {proposed = proposed_key, claims = claims_key, changes = changes_key}, claimed, news)
for _, i in ipairs(removed) do
  redis.call('DEL', backfill_keys[i])
  redis.call('ZREM', backfills_key, ids[i])
end
return {'OK', #removed, seen}
